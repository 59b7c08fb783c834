package profile

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// keepAlive asks for a keepalive, and reports whether one is sent.
func (l *line) keepAlive() bool { return len(l.b.KeepAlive(l.traffic).Send) == 1 }

// alive presents the server's answer to a keepalive, which the caller of a boundary does not count.
func (l *line) alive(text string) (s Step) {
	if s = l.server(text); s.Answered.Frames > 0 {
		l.traffic.Received--
	}
	return s
}

// In order, a lockstep server answers a keepalive with its next message, since it owes nothing when it gets one.
func TestKeepaliveInLockstepSession(t *testing.T) {
	p := mustParse(t, `profiles: {p: {reuse: lockstep, stateless: true, keepalive: {send: k, every: 10s, answer: {text: a}}}}`)
	l := idling(t, p)
	l.begin()
	if !l.keepAlive() || l.keepAlive() {
		t.Error("there must be one before the first message, and no other until it is answered")
	}
	l.client(frame.Text, "one") // it does not wait
	if l.pass != Relay {
		t.Errorf("the client's message: %v", l.pass)
	}
	if s := l.alive("a"); s.Pass != Drop || s.Answered != (Answered{frame.Text, 1, 1}) {
		t.Errorf("the answer: %+v", s)
	}
	if l.keepAlive() {
		t.Error("the server owes an answer, and gets a keepalive")
	}
	if s := l.server("a"); s.Pass != Relay || s.Then != Continue { // the client's, although it looks the same
		t.Errorf("the client's answer: %+v", s)
	}
	l.keepAlive()
	if s := l.end(); s.Then != Resetting { // the answer is under way
		t.Errorf("end: %+v", s)
	}
	l.want("the late answer", l.server("a"), Ready, NoReason)
	l.begin()
	l.keepAlive()
	l.want("the end of a session in which nothing was said", l.end(), Ready, NoReason)
	l.want("the answer after it", l.server("a"), Continue, NoReason)
	l.begin()
	l.keepAlive()
	l.want("something else", l.server("b"), Foreign, Unsolicited)
	l.want("end", l.end(), Broken, Unsolicited)
}

// Other servers may say something else first. As many answers are dropped as keepalives were sent.
func TestKeepaliveInSession(t *testing.T) {
	l := idling(t, mustParse(t, `profiles: {p: {keepalive: {send: k, every: 10s, answer: {json: {type: pong}}}}}`))
	l.begin()
	l.client(frame.Text, "half", "of it")
	for range 2 {
		if !l.keepAlive() {
			t.Fatal("there must be two")
		}
	}
	if l.server(`{"type":"result"}`); l.pass != Relay && l.pass != Release {
		t.Errorf("a result: %v", l.pass)
	}
	for range 2 {
		if s := l.alive(`{"type":"pong"}`); s.Pass != Drop {
			t.Errorf("an answer: %+v", s)
		}
	}
	if l.server(`{"type":"pong"}`); l.pass == Drop {
		t.Error("the answer to the client is dropped")
	}
	l.traffic.SendingMessage = true
	if l.keepAlive() {
		t.Error("a keepalive in the middle of a message")
	}
}

// Silence keeps a session alive only where it shifts nothing.
func TestKeepaliveThatIsAudio(t *testing.T) {
	const audio = `failover: {verdict: visible, why: x, audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}, `
	for yaml, why := range map[string]string{
		`keepalive: {send: {zeros: 320}, every: 10s}`: "",
		`keepalive: {send: {zeros: 320}, every: 10s}, ` + audio + `answered: {messages: {json: {text: "*"}}, by: utterance}}`:                "",
		`keepalive: {send: {zeros: 320}, every: 10s}, ` + audio + `answered: {messages: {json: {end: "*"}}, by: time, times: end, unit: s}}`: "shift the times",
		`keepalive: {send: ping, every: 10s}, ` + audio + `answered: {messages: {json: {end: "*"}}, by: time, times: end, unit: s}}`:         "",
		`limits: {age: 1h}`: "no keepalive.send",
	} {
		p := mustParse(t, "profiles: {p: {"+yaml+"}}")
		if every, got := p.SessionKeepalive(); (every == 0) != (why != "") || !strings.Contains(got, why) || why == "" && got != "" {
			t.Errorf("%s: %v, %q; want %q", yaml, every, got, why)
		}
	}
}
