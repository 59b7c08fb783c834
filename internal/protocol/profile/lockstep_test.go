package profile

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	voskPartial = `{"partial" : ""}`
	voskFinal   = `{"text" : ""}`
)

// voskSession runs a session of one piece of audio up to its end, with the given first message or none.
func voskSession(l *line, first string) Step {
	l.begin()
	if first != "" {
		l.client(frame.Text, first)
	}
	l.client(frame.Binary, "audio")
	l.server(voskPartial)
	return l.end()
}

// The reset has succeeded with its last answer, neither before nor after, and nothing of it reaches a client.
func TestLockstepReset(t *testing.T) {
	for _, first := range []string{"", `{"config" : {}}`} { // which is not answered
		l := builtin(t, "vosk")
		s := voskSession(l, first)
		if l.want("end", s, Resetting, NoReason); len(s.Send) != 3 {
			t.Errorf("%d messages are sent", len(s.Send))
		}
		for i, answer := range []string{voskFinal, voskPartial, voskFinal} {
			then := Continue
			if i == 2 {
				then = Ready
			}
			if l.want(answer, l.server(answer), then, NoReason); l.pass != Drop {
				t.Errorf("%s: %v", answer, l.pass)
			}
		}
		l.want("one more", l.server(voskFinal), Broken, Unsolicited)
	}
}

// Missing answers come before those to the reset.
func TestLockstepOwed(t *testing.T) {
	l := builtin(t, "vosk")
	l.begin()
	l.client(frame.Text, `{"config" : {}}`)
	l.client(frame.Binary, "audio")
	l.client(frame.Binary, "audio")
	if !l.b.Owed(l.traffic) {
		t.Error("Owed is false although answers are missing")
	}
	l.server(voskPartial)
	l.beginServerMessage(`{"part`)
	l.want("end", l.end(), Resetting, NoReason)
	l.want("the second one's rest", l.endServerMessage(`ial" : ""}`), Continue, NoReason)
	l.want("first", l.server(voskFinal), Continue, NoReason)
	l.want("second", l.server(voskPartial), Continue, NoReason)
	l.want("third", l.server(voskFinal), Ready, NoReason)
}

// The last answer must be the one that the profile expects.
func TestLockstepMismatch(t *testing.T) {
	for _, last := range []string{voskPartial, "{", `{"x":{"text":""}}`} {
		l := builtin(t, "vosk")
		voskSession(l, "")
		l.server(voskFinal)
		l.server(voskPartial)
		l.want(last, l.server(last), Broken, ResetMismatch)
	}
}

// If the server sends more answers than it got messages, they belong to no session.
func TestLockstepImplausible(t *testing.T) {
	l := builtin(t, "vosk")
	l.begin()
	l.client(frame.Binary, "audio")
	l.server(voskPartial)
	if !l.b.Plausible(l.traffic) || l.b.Owed(l.traffic) {
		t.Error("one answer for one question is not plausible, or not enough")
	}
	l.beginServerMessage("{")
	l.want("half an answer too many", l.b.End(l.traffic), Broken, Unsolicited)

	l = builtin(t, "vosk")
	l.begin()
	l.client(frame.Binary, "audio")
	l.traffic.Received = 2
	if l.b.Plausible(l.traffic) {
		t.Error("two answers for one question are plausible")
	}
	l.traffic.Received = 1
	l.want("end after that", l.end(), Broken, Unsolicited)

	l = builtin(t, "vosk")
	l.begin()
	l.client(frame.Text, `{"config" : {}}`)
	l.traffic.Received = 1
	if l.b.Plausible(l.traffic) {
		t.Error("an answer to what is not answered is plausible")
	}
}

// A session that sent nothing leaves the connection clean, unless the server sent something.
func TestNothingSaid(t *testing.T) {
	for _, name := range []string{"vosk", "watson", "dashscope", "echo"} {
		l := builtin(t, name)
		l.begin()
		if s := l.end(); s.Then != Ready || len(s.Send) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
		l.begin()
		l.traffic.ReceivingMessage = true
		l.want(name+", half a message", l.end(), Broken, Unsolicited)

		l = builtin(t, name)
		l.begin()
		l.traffic.Received = 1
		l.want(name+", a message", l.end(), Broken, Unsolicited)
	}
	l := builtin(t, "one-shot")
	l.begin()
	l.want("one-shot", l.end(), Broken, Served)
}

// A message that is incomplete when its session ends makes the connection Broken.
func TestCut(t *testing.T) {
	for _, name := range []string{"vosk", "watson", "dashscope", "echo", "one-shot"} {
		l := builtin(t, name)
		l.begin()
		l.client(frame.Binary, "audio")
		l.message(FromClient, frame.Binary, false, []string{"aud"})
		l.want(name, l.end(), Broken, Cut)
	}
}

// What an idle server says unasked breaks its connection at the first byte.
func TestUnsolicited(t *testing.T) {
	for _, name := range []string{"vosk", "watson", "dashscope", "echo"} {
		l := builtin(t, name)
		if s := l.b.Frame(FromServer, frame.Text, 5, true); s.Then != Broken || s.Reason != Unsolicited {
			t.Errorf("%s: %+v", name, s)
		}
		l = builtin(t, name)
		l.want(name, l.b.Closed(1000), Broken, ServerClosed)
	}
}

// A reset that does not succeed in time, or whose server closes, breaks the connection.
func TestResetFails(t *testing.T) {
	for _, c := range []struct {
		what   string
		event  func(*Boundary) Step
		reason Reason
		ending Reason // while the client waits for its last result
	}{
		{"timer", func(b *Boundary) Step { return b.Timer(true) }, ResetTimeout, ResultTimeout},
		{"close", func(b *Boundary) Step { return b.Closed(1000) }, ServerClosed, ServerClosed},
	} {
		l := builtin(t, "vosk")
		voskSession(l, "")
		l.server(voskFinal)
		l.want(c.what, c.event(&l.b), Broken, c.reason)
		l.want(c.what+", end again", l.end(), Broken, c.reason)

		l = builtin(t, "vosk")
		l.begin()
		l.client(frame.Binary, "audio")
		l.server(voskPartial)
		l.client(frame.Text, `{"eof" : 1}`)
		l.b.ReplaceEnd(l.traffic)
		s := c.event(&l.b)
		if l.want(c.what+" while finishing", s, Broken, c.ending); s.Close != 1011 {
			t.Errorf("%s: close code %d", c.what, s.Close)
		}
	}
}

// The client gets its last answer and nothing after it. What it sends after its end message is dropped, and if it leaves, nothing changes.
func TestFinishing(t *testing.T) {
	l := builtin(t, "vosk")
	l.begin()
	l.client(frame.Binary, "audio")
	l.client(frame.Text, `{"eof" : 1}`)
	l.b.ReplaceEnd(l.traffic)
	if l.client(frame.Binary, "more"); l.pass != Drop {
		t.Errorf("behind the end: %v", l.pass)
	}
	l.want("end", l.end(), Resetting, NoReason)
	for _, answer := range []string{voskPartial, voskFinal, voskPartial} {
		if l.want(answer, l.server(answer), Continue, NoReason); l.pass != Drop {
			t.Errorf("%s after the client has left: %v", answer, l.pass)
		}
	}
	l.want("last", l.server(voskFinal), Ready, NoReason)
}

// A busy server works through what it has before it comes to the reset: each answer up to the client's last result has its own time,
// and the reset's begins after that.
func TestLockstepBacklog(t *testing.T) {
	l := idling(t, mustParse(t, "profiles: {p: {from: vosk, end: {timeout: 2m}, reset: {timeout: 3s}}}"))
	l.begin()
	for range 2 {
		l.client(frame.Binary, "audio")
	}
	l.want("the end message", l.client(frame.Text, `{"eof" : 1}`), Replaced, NoReason)
	timers := func(what string, s Step, want time.Duration) {
		t.Helper()
		if s.Timer != want {
			t.Errorf("%s: timer %v; want %v", what, s.Timer, want)
		}
	}
	timers("the reset is sent", l.b.ReplaceEnd(l.traffic), 2*time.Minute)
	timers("first", l.server(voskPartial), 2*time.Minute)
	timers("second", l.server(voskPartial), 2*time.Minute)
	s := l.server(voskFinal)
	l.want("last result", s, Finished, NoReason)
	timers("last result", s, 3*time.Second)
	l.want("end", l.end(), Resetting, NoReason)
	timers("the reset's second answer", l.server(voskPartial), 0)
	l.want("the reset's last answer", l.server(voskFinal), Ready, NoReason)

	// A client that vanishes waits for nothing, and its backlog is worked off.
	l.begin()
	for range 2 {
		l.client(frame.Binary, "audio")
	}
	timers("the client vanishes", l.end(), 3*time.Second)
	timers("first", l.server(voskPartial), 3*time.Second)
	timers("second", l.server(voskPartial), 3*time.Second)
	timers("the reset's first answer", l.server(voskFinal), 3*time.Second)
	timers("the reset's second answer", l.server(voskPartial), 0)
	l.want("the reset's last answer", l.server(voskFinal), Ready, NoReason)

	// So is that of one which vanishes after its end message.
	l.begin()
	l.client(frame.Binary, "audio")
	l.client(frame.Text, `{"eof" : 1}`)
	l.b.ReplaceEnd(l.traffic)
	timers("the client vanishes after its end", l.end(), 3*time.Second)
	timers("first", l.server(voskPartial), 3*time.Second)
	if s := l.b.Timer(true); s.Then != Broken || s.Reason != ResetTimeout {
		t.Errorf("nothing more: %+v", s)
	}
}
