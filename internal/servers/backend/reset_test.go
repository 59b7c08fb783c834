package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What becomes of a connection that still owes answers to a session.

// What the server still owes is dropped, and then the connection is idle again, with nothing of it left.
func TestResetDropsLateAnswers(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", nil)
	for range 3 { // the counts continue from session to session
		s := r.use()
		for _, text := range []string{"1", "2", "3"} {
			s.ask(text)
			p.Expect(frame.Text, text)
		}
		p.Send(frame.Text, "1")
		second := wstest.ServerFrame(true, frame.Text, "the second answer")
		p.SendBytes(second[:7])
		s.hear(len(wstest.ServerFrame(true, frame.Text, "1")) + 7)
		if v := s.end(3); v != Resetting {
			t.Fatalf("outcome %v", v)
		}
		if _, ok := r.tryLease(); ok {
			t.Fatal("a connection that is being reset was leased")
		}
		p.SendBytes(second[7:])
		p.Send(frame.Ping, "in between")
		p.Expect(frame.Pong, "in between")
		if st := r.Stats(); st.Resetting != 1 {
			t.Fatalf("stats: %+v", st)
		}
		p.SendBytes(append(wstest.ServerFrame(false, frame.Text, "third"), wstest.ServerFrame(true, frame.Continuation, "")...))
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
	t.Parallel()
	for _, c := range []struct {
		name   string
		play   func(*wstest.Peer)
		code   frame.CloseCode // of the close frame that the server gets; 0 for none
		reason string
	}{
		{"too many answers", func(p *wstest.Peer) {
			p.SendBytes(append(wstest.ServerFrame(true, frame.Text, "1"), wstest.ServerFrame(true, frame.Text, "2")...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"beginning of another answer", func(p *wstest.Peer) {
			p.SendBytes(append(wstest.ServerFrame(true, frame.Text, "1"), wstest.ServerFrame(false, frame.Text, "2")...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"header of another answer", func(p *wstest.Peer) {
			p.SendBytes(append(wstest.ServerFrame(true, frame.Text, "1"), wstest.ServerFrame(true, frame.Text, "2")[:2]...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"half a header of another answer", func(p *wstest.Peer) {
			p.SendBytes(append(wstest.ServerFrame(true, frame.Text, "1"), wstest.ServerFrame(true, frame.Text, "2")[:1]...))
		}, frame.PolicyViolation, "unsolicited message"},
		{"no answer", func(*wstest.Peer) {}, frame.PolicyViolation, "reset timed out"},
		{"half an answer", func(p *wstest.Peer) { p.SendBytes(wstest.ServerFrame(false, frame.Text, "1")) }, frame.PolicyViolation, "reset timed out"},
		{"close", func(p *wstest.Peer) { p.SendClose(1001, "") }, 1001, "closed by the server: 1001 "},
		{"protocol error", func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) }, frame.ProtocolError, "reserved opcode"},
		{"end of the stream", func(p *wstest.Peer) { _ = p.Close() }, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *wstest.Server) {
				if c.reason == "reset timed out" {
					o.Profile = within(t, "echo", "reset", 30*time.Millisecond)
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.Expect(frame.Text, "1")
			if v := s.end(1); v != Resetting {
				t.Fatalf("outcome %v", v)
			}
			c.play(p)
			if c.code != 0 {
				p.ExpectClose(c.code, c.reason)
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
	t.Parallel()
	for name, answer := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *wstest.Server) {
				if !answer {
					o.Profile = within(t, "echo", "reset", 50*time.Millisecond)
				}
			})
			r.ready(1)
			p := r.accepted()
			s := r.use()
			s.ask("1")
			p.Expect(frame.Text, "1")
			s.on(func() {
				s.conn.End(Ending{Traffic: profile.Traffic{Sent: 1}, Code: frame.GoingAway})
				s.conn.stream.Post(func() { s.conn.MoveTo(r.loops.Loops()[1-s.conn.stream.Loop().ID()]) })
			})
			if answer {
				p.Send(frame.Text, "1")
				r.ready(1)
				return
			}
			p.ExpectClose(frame.PolicyViolation, "reset timed out")
		})
	}
}
