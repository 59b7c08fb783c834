package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// What becomes of a connection that still owes answers to a session.

// What the server still owes is dropped, and then the connection is idle again, with nothing of it left.
func TestResetDropsLateAnswers(t *testing.T) {
	r := newRig(t, "echo", nil)
	r.ready(1)
	p := r.accepted()
	for range 3 { // the counts go on from session to session
		s := r.use()
		for _, text := range []string{"1", "2", "3"} {
			s.ask(text)
			p.expect(frame.Text, text)
		}
		p.send(frame.Text, "1")
		second := wire(true, frame.Text, "the second answer")
		p.write(second[:7])
		s.hear(len(wire(true, frame.Text, "1")) + 7)
		if v := s.end(3); v != Resetting {
			t.Fatalf("outcome %v", v)
		}
		if _, ok := r.tryLease(); ok {
			t.Fatal("a connection that is being reset was leased")
		}
		p.write(second[7:])
		p.send(frame.Ping, "in between")
		p.expect(frame.Pong, "in between")
		if st := r.Stats(); st.Resetting != 1 {
			t.Fatalf("stats: %+v", st)
		}
		p.write(append(wire(false, frame.Text, "third"), wire(true, frame.Continuation, "")...))
		r.ready(1)
		s.on(func() {
			if s.conn.timer.Active() {
				t.Error("the limit of the reset is still running")
			}
		})
		if len(s.received) > 20 {
			t.Errorf("the session got %q", s.received)
		}
	}
	if s := r.Stats().Totals; s.Dialed != 1 || s.Returned != 3 || s.Discarded != 0 {
		t.Errorf("totals: %+v", s)
	}
}

// Whatever else comes of a reset costs the connection.
func TestResetFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		play   func(*peer)
		code   frame.CloseCode // of the close frame that the server gets; 0 for none
		reason string
	}{
		{"too many answers", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"beginning of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(false, frame.Text, "2")...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"header of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")[:2]...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"half a header of another answer", func(p *peer) {
			p.write(append(wire(true, frame.Text, "1"), wire(true, frame.Text, "2")[:1]...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"no answer", func(*peer) {}, frame.GoingAway, "no answer in time"},
		{"half an answer", func(p *peer) { p.write(wire(false, frame.Text, "1")) }, frame.GoingAway, "no answer in time"},
		{"close", func(p *peer) { p.sendClose(1001, "") }, 1001, "closed by the server: 1001 "},
		{"breach of the protocol", func(p *peer) { p.write([]byte{0x83, 0}) }, frame.ProtocolError, "reserved opcode"},
		{"end of the stream", func(p *peer) { _ = p.Close() }, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *server) {
				if c.reason == "no answer in time" {
					o.ResetTimeout = 30 * time.Millisecond
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.expect(frame.Text, "1")
			if v := s.end(1); v != Resetting {
				t.Fatalf("outcome %v", v)
			}
			c.play(p)
			if c.code != 0 {
				p.expectClose(c.code, c.reason)
				_ = p.Close()
			}
			r.accepted()
			r.ready(1)
			if s := r.Stats(); s.Totals.Discarded != 1 || s.Totals.Returned != 0 || s.Used() != 1 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// A reset that waits for its answer moves between loops, and its limit goes with it.
func TestResetMoves(t *testing.T) {
	for name, answer := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *server) {
				if !answer {
					o.ResetTimeout = 50 * time.Millisecond
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.expect(frame.Text, "1")
			s.on(func() {
				s.conn.End(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway})
				s.conn.stream.Post(func() { s.conn.MoveTo(r.loops.Loops()[1-s.conn.stream.Loop().ID()]) })
			})
			if answer {
				p.send(frame.Text, "1")
				r.ready(1)
				return
			}
			p.expectClose(frame.GoingAway, "no answer in time")
		})
	}
}
