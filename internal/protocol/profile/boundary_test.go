package profile

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A server's message that is under way when the session ends belongs to that session, up to its last byte.
func TestEndWithinMessage(t *testing.T) {
	const (
		run      = `{"header":{"action":"run-task","task_id":"1"}}`
		finish   = `{"header":{"action":"finish-task","task_id":"1"}}`
		finished = `{"header":{"event":"task-finished","task_id":"1"}}`
	)
	l := builtin(t, "dashscope")
	l.begin()
	l.client(frame.Text, run)
	l.client(frame.Text, finish)
	l.server(finished)
	l.beginServerMessage(`{"header":{"event":"result-`)
	l.want("end", l.end(), Resetting, NoReason)
	s := l.endServerMessage(`generated","task_id":"1"}}`)
	l.want("its end", s, Ready, NoReason)
	if l.pass != Drop {
		t.Errorf("the rest is not dropped: %v", l.pass)
	}

	// If the acknowledgement must be the last message, a message after it proves that it was not.
	l = builtin(t, "watson")
	l.begin()
	l.client(frame.Text, `{"action":"start"}`)
	l.server(`{"state":"listening"}`)
	l.client(frame.Text, `{"action":"stop"}`)
	l.server(`{"state":"listening"}`)
	l.beginServerMessage(`{"results":`)
	l.want("end behind the acknowledgement", l.end(), Broken, LateMessage)
}

// While an answer to a keepalive message is awaited, nothing of the client's passes, not even what has been read already.
func TestKeepaliveBeforeSession(t *testing.T) {
	p := mustParse(t, `profiles: {p: {reuse: lockstep, stateless: true, keepalive: {send: k, every: 10s, answer: {text: a}}}}`)
	for _, c := range []struct {
		answer string
		then   Then
		reason Reason
	}{{"a", Continue, NoReason}, {"b", Elsewhere, Unsolicited}, {"", Elsewhere, NotAlive}} {
		l := idling(t, p)
		if s := l.b.Timer(true); len(s.Send) != 1 || string(s.Send[0].Append(nil, 0)) != "k" {
			t.Fatalf("keepalive: %+v", s)
		}
		if s := l.begin(); s.Client != Pause || s.Timer != 5*time.Second {
			t.Errorf("begin: %+v", s)
		}
		if s := l.client(frame.Text, "audio"); s.Pass != Keep {
			t.Errorf("client: %+v", s)
		}
		var s Step
		if c.answer == "" {
			s = l.b.Timer(true)
		} else if s = l.server(c.answer); s.Pass != Drop {
			t.Errorf("answer: %+v", s)
		}
		l.want("answer "+c.answer, s, c.then, c.reason)
		if c.then == Continue {
			if s.Client != Resume {
				t.Errorf("the client is not read again: %+v", s)
			}
			l.client(frame.Text, "audio")
			if l.pass != Relay {
				t.Errorf("audio: %v", l.pass)
			}
			continue
		}
		if o := l.b.Opening(); o.Opcode != 0 {
			t.Errorf("opening: %+v", o)
		}
		l.want("end", l.end(), Broken, c.reason)
	}
}

// An answer to a keepalive message that is none breaks an idle connection.
func TestKeepaliveWhileIdle(t *testing.T) {
	p := mustParse(t, `profiles: {p: {reuse: lockstep, stateless: true, keepalive: {send: k, every: 10s, answer: {text: a}}}}`)
	l := idling(t, p)
	l.b.Timer(true)
	l.want("the answer", l.server("a"), Continue, NoReason)
	l.want("one more", l.server("a"), Broken, Unsolicited)
	l = idling(t, p)
	l.b.Timer(true)
	l.want("something else", l.server("b"), Broken, Unsolicited)
	l = idling(t, p)
	l.want("within a header", l.b.Timer(false), Broken, NotAlive)
}

// Keepalive messages hold one-shot connections as well. What else the server says while it is idle is for the client.
func TestKeepaliveOneShot(t *testing.T) {
	p := mustParse(t, `profiles: {p: {keepalive: {send: k, every: 10s, answer: {text: a}}}}`)
	l := idling(t, p)
	if s := l.b.Timer(true); len(s.Send) != 1 || s.Timer != 10*time.Second {
		t.Fatalf("keepalive: %+v", s)
	}
	l.want("something else", l.server("hello"), Continue, NoReason)
	l.want("the answer", l.server("a"), Continue, NoReason)
	if l.pass != Drop {
		t.Errorf("the answer: %v", l.pass)
	}
	l.want("the next one", l.b.Timer(true), Continue, NoReason)
	l.want("without an answer", l.b.Timer(true), Broken, NotAlive)
	if got := greetings(&l.b); got != "hello" {
		t.Errorf("greeting: %q", got)
	}
}

// A first message that may set something that sticks, and is too long to tell, never reaches a connection with settings.
func TestLongFirstMessage(t *testing.T) {
	long := `{"config" : {"phrase_list" : ["` + strings.Repeat("x", 1<<16) + `"]}}`
	used := func() *line {
		l := builtin(t, "vosk")
		l.begin()
		l.client(frame.Binary, "audio")
		l.server(`{"partial":""}`)
		l.end()
		l.server(`{"text":""}`)
		l.server(`{"partial":""}`)
		l.want("reset", l.server(`{"text":""}`), Ready, NoReason)
		l.begin()
		return l
	}
	l := used()
	if s := l.client(frame.Text, long); s.Pass != Keep {
		t.Errorf("whole: %+v", s)
	} else {
		l.want("whole", s, Elsewhere, OtherSettings)
	}
	l = used()
	s := l.client(frame.Text, long[:10], long[10:])
	l.want("in two frames", s, Broken, OtherSettings)
	if s.Close != 1009 || l.pass != Drop || len(l.passed) > 0 {
		t.Errorf("in two frames: %+v, passed %d frames", s, len(l.passed))
	}

	// A new connection passes it on and then serves no other session.
	for _, frames := range [][]string{{long}, {long[:10], long[10:]}} {
		l := builtin(t, "vosk")
		l.begin()
		l.client(frame.Text, frames...)
		if got := strings.Join(l.passed, ""); got != long {
			t.Errorf("in %d frames: %d bytes passed; want %d", len(frames), len(got), len(long))
		}
		l.want("end", l.end(), Leaving, Unclean)
	}
}

// A server that is full may say so before the session has begun.
func TestBusyBeforeSession(t *testing.T) {
	const full = `{"status": 9}`
	l := builtin(t, "kaldi-gstreamer")
	l.want("before", l.server(full), Broken, Busy)

	l = builtin(t, "kaldi-gstreamer")
	l.beginServerMessage(full[:5])
	l.begin()
	l.want("at the same time", l.endServerMessage(full[5:]), Elsewhere, Busy)
	if len(l.passed) > 0 {
		t.Errorf("the client gets %q", l.passed)
	}
	l.want("end", l.end(), Broken, Served)

	l = builtin(t, "kaldi-gstreamer")
	l.want("something else", l.server(`{"status": 0}`), Continue, NoReason)
	l.beginServerMessage("another ")
	if got := greetings(&l.b); got != `{"status": 0}` {
		t.Errorf("greeting: %q", got)
	}
	l.begin()
	l.want("its end", l.endServerMessage("one"), Continue, NoReason)
	if len(l.passed) != 1 || l.passed[0] != "another one" {
		t.Errorf("the client gets %q", l.passed)
	}
}

// greetings returns what a client gets first.
func greetings(b *Boundary) (text string) {
	for _, payload := range b.Greeting() {
		text += string(payload)
	}
	return text
}

// A greeting is saved whole or not at all.
func TestGreeting(t *testing.T) {
	p := mustParse(t, `profiles: {p: {greeting: {text: go}, limits: {greeting: 11}}}`)
	l, s := dialed(t, p)
	if s.Then != Continue || s.Timer != 10*time.Second {
		t.Errorf("dialed: %+v", s)
	}
	l.want("first", l.server("ready, "), Continue, NoReason)
	l.want("last", l.server("go"), Ready, NoReason)
	if got := greetings(&l.b); got != "ready, go" {
		t.Errorf("greeting: %q", got)
	}
	for _, frames := range [][]string{{"123456789a", "b"}, {"1", "23456789abc"}, {"123456789abc"}} {
		l, _ := dialed(t, p)
		l.want("too long", l.server(frames...), Broken, GreetingFailed)
	}
	l, _ = dialed(t, p)
	l.want("late", l.b.Timer(true), Broken, GreetingFailed)
}

// A caller that begins a session on a connection that is not ready gets none.
func TestBeginTwice(t *testing.T) {
	l := builtin(t, "vosk")
	l.begin()
	if s := l.begin(); s.Then != Broken || s.Close != 1011 {
		t.Errorf("%+v", s)
	}
}

// The client's end message counts as sent and not passed on, whether the caller has counted it yet or not.
func TestFinishCounts(t *testing.T) {
	for _, counted := range []bool{true, false} {
		l := builtin(t, "vosk")
		l.begin()
		l.client(frame.Binary, "audio")
		l.want("end message", l.client(frame.Text, `{"eof" : 1}`), Replaced, NoReason)
		if l.pass != Drop || len(l.passed) != 1 {
			t.Errorf("the end message: %v; passed: %q", l.pass, l.passed)
		}
		if !counted {
			l.traffic.Sent--
			l.traffic.SendingMessage = true
		}
		if s := l.b.ReplaceEnd(l.traffic); len(s.Send) != 3 || s.Timer != time.Minute {
			t.Errorf("finish: %+v", s)
		}
		l.want("the audio's answer", l.server(`{"partial":""}`), Continue, NoReason)
		s := l.server(`{"text":"words"}`)
		if l.want("the final answer", s, Finished, NoReason); s.Close != 1000 || l.pass != Relay {
			t.Errorf("the final answer: %+v, %v", s, l.pass)
		}
		l.want("end", l.end(), Resetting, NoReason)
		l.want("second", l.server(`{"partial":""}`), Continue, NoReason)
		l.want("third", l.server(`{"text":""}`), Ready, NoReason)
	}
}

// Each session has this besides package relay's. More than 192 bytes would be rounded up to 208.
func TestSizeOfSession(t *testing.T) {
	if size := unsafe.Sizeof(session{}); size > 192 {
		t.Errorf("%d bytes; want at most 192", size)
	}
}
