package backend

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The verdict on a ping is asked for here, so that no test depends on how busy the machine is.

// What counts as a sign of life, or as no reason to judge.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		sign  func(*session, *wstest.Peer, string)
		alive bool
	}{
		{"nothing", func(*session, *wstest.Peer, string) {}, false},
		{"nothing more than before", func(*session, *wstest.Peer, string) {}, false},
		{"the pong", func(s *session, p *wstest.Peer, ping string) {
			p.Send(frame.Pong, ping)
			s.settled()
		}, true},
		{"pongs that answer no ping", func(s *session, p *wstest.Peer, ping string) {
			for _, payload := range []string{"", "unasked", ping + "x", ping[:7], "12345678"} {
				p.Send(frame.Pong, payload)
			}
			p.Send(frame.Ping, "passed them") // the session does not answer pings, but sees them
			wstest.Eventually(s.t, "they have arrived", func() (all bool) {
				s.on(func() { all = s.pinged > 0 })
				return all
			})
		}, false},
		{"a message", func(s *session, p *wstest.Peer, _ string) {
			p.Send(frame.Text, "the answer comes first")
			s.hear(5)
		}, true},
		{"an empty message", func(s *session, p *wstest.Peer, _ string) {
			p.Send(frame.Binary, "")
			s.hear(2)
		}, true},
		{"more of a message that had begun before", func(s *session, p *wstest.Peer, _ string) {
			p.SendBytes([]byte("more"))
			s.hear(3 + 2 + 4)
		}, true},
		{"the beginning of a header", func(s *session, p *wstest.Peer, _ string) {
			p.SendBytes(wstest.ServerFrame(true, frame.Text, strings.Repeat("x", 200))[:2])
			wstest.Eventually(s.t, "it has arrived", func() (held bool) {
				s.on(func() { held = s.conn.stream.Held() > 0 })
				return held
			})
		}, true},
		{"the proxy does not read", func(s *session, _ *wstest.Peer, _ string) { s.on(s.conn.stream.Pause) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", pinging)
			s := r.use()
			if c.name == "nothing more than before" {
				p.Send(frame.Text, "hello")
				s.hear(2 + 5)
			}
			if strings.HasPrefix(c.name, "more") {
				p.SendBytes([]byte{0x82, 9, 'b', 'e', 'g'})
				s.hear(2 + 3)
			}
			s.check()
			c.sign(s, p, p.ExpectPing())
			s.due()
			s.on(func() {}) // after what the verdict has led to
			s.on(func() {
				if alive := s.ended == nil && !s.conn.stream.Ended(); alive != c.alive {
					t.Errorf("alive: %v", alive)
				}
				if s.conn.timer.Active() != c.alive {
					t.Errorf("it will be looked at again: %v", s.conn.timer.Active())
				}
			})
			s.finish(Ending{MidFrame: true})
		})
	}
}

// The round trip is the time from the ping to its pong, and not to that of another.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", pinging)
	s := r.use()
	s.check()
	first := p.ExpectPing()
	s.check()
	second := p.ExpectPing()
	p.Send(frame.Pong, first) // too late
	s.on(func() {             // as if it had been sent a minute ago, which its payload depends on
		if second != string(binary.BigEndian.AppendUint64(nil, s.conn.token())) {
			t.Errorf("the second ping was %q", second)
		}
		s.conn.pinged = s.conn.pinged.After(-time.Minute)
		second = string(binary.BigEndian.AppendUint64(nil, s.conn.token()))
	})
	p.Send(frame.Pong, second)
	if d := s.settled(); d < time.Minute || d > time.Minute+wstest.Timeout {
		t.Errorf("round trip %v", d)
	}
	if h := r.Health(); h.RoundTripSeconds < 60 || h.RoundTripSeconds > 60+wstest.Timeout.Seconds() {
		t.Errorf("health: %+v", h)
	}
	p.Send(frame.Pong, second) // answers nothing now
	s.end(0)
	r.ready(1)
}

// A session in the middle of a frame sends its ping later. Until then there is nothing to answer, and then there is as
// much time for the answer as ever.
func TestPingWaitsForBoundary(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", pinging)
	s := r.use()
	s.check()
	p.ExpectPing() // never answered, nor judged
	s.on(func() { s.busy = true })
	s.check()
	s.due() // no ping was sent this time
	s.check()
	s.on(func() {
		if s.pings != 3 || s.conn.stream.Ended() {
			t.Errorf("asked for a ping %d times, %v", s.pings, s.conn.stream.Ended())
		}
		s.ping()
		s.conn.pongDue() // that of the time when it was asked for
		if s.conn.stream.Ended() || s.conn.pinged == 0 || !s.conn.timer.Active() {
			t.Error("not awaited")
		}
	})
	p.Send(frame.Pong, p.ExpectPing())
	s.settled()
	s.end(0)
	r.ready(1)
}

// While the server does not take what was written before, an idle connection sends no ping, and is not judged.
func TestNoPingWhileFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", pinging)
	s := &session{t: t, conn: r.lease()}
	r.ready(0)
	p := r.accepted()
	whole := frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true}, make([]byte, 16<<20))
	s.write(whole)
	s.on(func() {
		if s.conn.stream.Pending() == 0 {
			t.Fatal("the sockets have taken it all")
		}
	})
	s.check()
	s.due()
	s.on(func() {
		if s.conn.pinged != 0 || s.conn.stream.Ended() || !s.conn.timer.Active() {
			t.Error("pinged or judged")
		}
	})
	if h, _, err := p.Next(); err != nil || h.Opcode != frame.Binary {
		t.Fatalf("%v, %v", h.Opcode, err)
	}
	s.until("the connection knows that all is sent", func() bool { return s.conn.stream.Pending() == 0 })
	s.check()
	p.Send(frame.Pong, p.ExpectPing())
	s.settled()
	s.conn.ReturnUnused()
	r.ready(1)
}

// A ping that is under way when its session ends, or begins, is answered as well.
func TestPingOverlapsSession(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", pinging)
	s := &session{t: t, conn: r.lease()}
	s.check()
	ping := p.ExpectPing()
	if !s.begin() {
		t.Fatal("not alive")
	}
	p.Send(frame.Pong, ping)
	s.settled()
	s.check()
	ping = p.ExpectPing()
	s.end(0)
	p.Send(frame.Pong, ping)
	s.settled()
	s.on(func() {
		if !s.conn.timer.Active() {
			t.Error("no longer looked at")
		}
	})
	r.ready(1)
}
