package profile

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	options     = `{"uid":"x"}`
	serverReady = `{"message":"SERVER_READY"}`
	serverFull  = `{"status":"WAIT"}`
)

// Until the server is ready, nothing but the client's first message reaches it.
func TestReady(t *testing.T) {
	l := builtin(t, "whisperlive")
	l.begin()
	s := l.client(frame.Text, options)
	if l.want("options", s, Continue, NoReason); s.Client != Pause || s.Timer != time.Minute || len(l.passed) != 1 {
		t.Errorf("options: %+v; passed: %q", s, l.passed)
	}
	if s := l.client(frame.Binary, "audio"); s.Pass != Keep {
		t.Errorf("audio before: %+v", s)
	}
	s = l.server(serverReady)
	if l.want("ready", s, Continue, NoReason); s.Client != Resume || s.Timer != StopTimer || len(l.passed) != 2 {
		t.Errorf("ready: %+v; passed: %q", s, l.passed)
	}
	if l.client(frame.Binary, "audio"); len(l.passed) != 3 {
		t.Errorf("audio: passed: %q", l.passed)
	}
	if l.server(serverFull); len(l.passed) != 4 {
		t.Errorf("later on it is a message like others; passed: %q", l.passed)
	}
}

// A full server sends the session elsewhere, with its first message, and the client sees nothing of it.
func TestFull(t *testing.T) {
	l := builtin(t, "whisperlive")
	l.begin()
	l.client(frame.Text, options[:3], options[3:])
	s := l.server(serverFull[:4], serverFull[4:])
	if l.want("full", s, Elsewhere, Busy); s.Client != Pause || s.Timer != StopTimer || len(l.passed) != 2 {
		t.Errorf("full: %+v; passed: %q", s, l.passed)
	}
	if o := l.b.Opening(); o.Opcode != frame.Text || string(o.Payload) != options {
		t.Errorf("opening: %+v", o)
	}
	l.want("end", l.end(), Broken, Served)

	// Once the client has received something from this server, no other server can take over.
	l = builtin(t, "whisperlive")
	l.begin()
	l.client(frame.Text, options)
	l.server(`{"status":"WARNING"}`)
	if s := l.server(serverFull); s.Then == Elsewhere {
		t.Errorf("full behind something else: %+v", s)
	}

	// Close codes say so as well.
	p := mustParse(t, "profiles: {p: {busy: {close: 1013}}}")
	for _, c := range []struct {
		what   string
		says   []string
		then   Then
		reason Reason
	}{
		{"nothing", nil, Elsewhere, Busy},
		{"one message", []string{"1"}, Elsewhere, Busy},
		{"two messages", []string{"1", "2"}, Broken, ServerClosed},
	} {
		l := idling(t, p)
		l.begin()
		for _, message := range c.says {
			l.client(frame.Binary, message)
		}
		l.want(c.what, l.b.Closed(1013), c.then, c.reason)
	}
	l = idling(t, mustParse(t, "profiles: {p: {busy: {close: 1013}, reuse: lockstep, stateless: true, unanswered: {text: x}}}"))
	l.begin()
	l.client(frame.Text, "1")
	l.client(frame.Text, "2")
	l.want("two inspected messages", l.b.Closed(1013), Broken, ServerClosed)
	l = idling(t, p)
	l.begin()
	l.client(frame.Binary, "1")
	l.want("another code", l.b.Closed(1000), Broken, ServerClosed)
	l = idling(t, p)
	l.begin()
	l.client(frame.Binary, "1")
	l.server("hello")
	l.want("after an answer", l.b.Closed(1013), Broken, ServerClosed)
}

// A server that never gets ready sends the session elsewhere, and a client that leaves before that closes the connection.
func TestNeverReady(t *testing.T) {
	l := builtin(t, "whisperlive")
	l.begin()
	l.client(frame.Text, options)
	l.want("timer", l.b.Timer(true), Elsewhere, NotReady)

	l = builtin(t, "whisperlive")
	l.begin()
	l.client(frame.Text, options)
	l.server(`{"status":"WARNING"}`)
	s := l.b.Timer(true)
	if l.want("timer behind an answer", s, Broken, NotReady); s.Close != 1013 {
		t.Errorf("close code %d", s.Close)
	}

	l = idling(t, mustParse(t, "profiles: {p: {reuse: lockstep, stateless: true, ready: {text: ready}}}"))
	l.begin()
	l.client(frame.Text, options)
	l.want("end", l.end(), Broken, NotReady)
}

// The proxy's own first messages go out as soon as the connection is open.
func TestSetup(t *testing.T) {
	l, s := dialed(t, mustParse(t, "profiles: {p: {setup: [a, {base64: AAE=}]}}"))
	if l.want("dialed", s, Ready, NoReason); len(s.Send) != 2 || !s.Send[1].Binary || string(s.Send[1].Append(nil, 0)) != "\x00\x01" {
		t.Errorf("%+v", s)
	}
}

// A full server may take a moment to say so. Until then the client's second message waits, so that another connection can take over the session.
func TestBusyLate(t *testing.T) {
	p, err := Named("kaldi-gstreamer")
	if err != nil {
		t.Fatal(err)
	}
	for name, full := range map[string]bool{"full": true, "not full": false} {
		l := idling(t, p)
		l.begin()
		s := l.client(frame.Binary, "audio")
		if s.Client != Pause || s.Timer != 100*time.Millisecond || l.pass != Relay {
			t.Errorf("%s: after the first message: %+v, %v", name, s, l.pass)
		}
		l.client(frame.Binary, "more")
		if l.pass != Keep {
			t.Errorf("%s: the second message: %v", name, l.pass)
		}
		if full {
			l.want("full", l.server(`{"status": 9}`), Elsewhere, Busy)
			continue
		}
		if !l.b.Leaves(l.traffic) {
			t.Error("a client that vanishes leaves its session behind")
		}
		if s := l.b.Timer(true); s.Client != Resume || s.Then != Continue {
			t.Errorf("after the time: %+v", s)
		}
		if l.client(frame.Binary, "more"); l.pass != Relay {
			t.Errorf("the second message again: %v", l.pass)
		}
	}
}
