package profile

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// line is one connection, whose events a test writes down one after another.
type line struct {
	t       testing.TB
	b       Boundary
	traffic Traffic
	pass    Pass // of what was presented last
	passed  []string
}

// dialed returns a connection that has been dialed, with the last Step.
func dialed(t testing.TB, p *Profile) (*line, Step) {
	l := &line{t: t, b: New(p)}
	return l, l.b.Dialed()
}

// builtin returns a connection with the built-in profile that is idle.
func builtin(t testing.TB, name string) *line {
	t.Helper()
	p, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if name == "watson" { // otherwise its connections are used once
		p = mustParse(t, "profiles: {p: {from: watson, unsafe: doubt}}")
	}
	return idling(t, p)
}

// idling returns a connection that is idle.
func idling(t testing.TB, p *Profile) *line {
	t.Helper()
	l, s := dialed(t, p)
	if s.Then != Ready {
		t.Fatalf("dialed: %+v", s)
	}
	return l
}

// begin begins a session.
func (l *line) begin() Step {
	l.traffic, l.passed = Traffic{}, nil
	return l.b.Begin(testToken)
}

// end ends it.
func (l *line) end() Step { return l.b.End(l.traffic) }

// client presents a message from the client, in these frames, and returns the Step of the last call.
func (l *line) client(op frame.Opcode, frames ...string) Step {
	return l.message(FromClient, op, true, frames)
}

// server presents a message from the server.
func (l *line) server(frames ...string) Step { return l.message(FromServer, frame.Text, true, frames) }

// beginServerMessage presents the beginning of a message from the server.
func (l *line) beginServerMessage(frames ...string) Step {
	return l.message(FromServer, frame.Text, false, frames)
}

// endServerMessage presents the rest of a message from the server.
func (l *line) endServerMessage(frames ...string) Step {
	return l.message(FromServer, frame.Continuation, true, frames)
}

func (l *line) message(d Direction, op frame.Opcode, whole bool, frames []string) (s Step) {
	count, under := &l.traffic.Sent, &l.traffic.SendingMessage
	if d == FromServer {
		count, under = &l.traffic.Received, &l.traffic.ReceivingMessage
	}
	shown := op == frame.Continuation || l.b.Inspect(d)&(1<<op) != 0
	for i, text := range frames {
		last := whole && i == len(frames)-1
		if !shown {
			l.pass = Relay
		} else {
			s = l.b.Frame(d, op, int64(len(text)), last)
			l.pass = s.Pass
			switch s.Pass {
			case Keep:
				return s
			case Release:
				_, held, _ := l.b.Held(d)
				l.passed = append(l.passed, string(held))
				l.pass = Relay
			}
		}
		*under = !last
		if last {
			*count++
		}
		if shown && s.Feed {
			first := s
			s = l.b.Feed(d, []byte(text), 0, last)
			if first.Then != Continue {
				l.t.Errorf("Frame says %v and asks for Feed", first.Then)
			}
			l.pass = s.Pass
		}
		switch l.pass {
		case Relay:
			l.passed = append(l.passed, text)
		case Release:
			_, held, _ := l.b.Held(d)
			l.passed = append(l.passed, string(held))
		}
		op = frame.Continuation
	}
	return s
}

// want holds what a Step says of the connection against what is expected.
func (l *line) want(what string, s Step, then Then, reason Reason) {
	l.t.Helper()
	if s.Then != then || s.Reason != reason {
		l.t.Errorf("%s: %v %q; want %v %q", what, s.Then, s.Reason, then, reason)
	}
}
