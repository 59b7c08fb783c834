package backend

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Connections are dialed until enough are warm, never more than the cap.
func TestFill(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings.Cap, o.Settings.Warm, s.Serve = 5, 2, wstest.Echo
	})
	r.ready(2)
	var held []*session
	for leased := 1; leased <= 5; leased++ {
		held = append(held, r.use())
		r.ready(min(2, 5-leased))
		if s := r.Stats(); s.Leased != leased {
			t.Errorf("stats: %+v", s)
		}
	}
	if _, ok := r.tryLease(); ok {
		t.Error("leased more than the cap")
	}
	for _, s := range held {
		s.end(0)
	}
	if peak := r.server.Counts().Peak; peak != 5 {
		t.Errorf("the server saw %d connections at once; want 5", peak)
	}
}

// However fast connections are used up, the server never sees more than the cap at once.
func TestCapHoldsWhileConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	const limit, sessions = 4, 150
	r := newRig(t, "one-shot", func(o *Options, s *wstest.Server) {
		o.Settings.Cap, o.Settings.Warm, s.Serve = limit, limit, wstest.Echo
	})
	done := make(chan int)
	for range limit + 2 {
		go func() {
			served := 0
			for served < sessions/limit {
				c, err := r.acquire(wstest.Timeout)
				if err != nil {
					t.Error(err)
					break
				}
				s := &session{t: t, conn: c}
				if s.begin() {
					s.end(0)
					served++
				}
			}
			done <- served
		}()
	}
	for range limit + 2 {
		<-done
	}
	r.ready(limit)
	seen := r.server.Counts()
	if seen.Peak > limit {
		t.Errorf("the server saw %d connections at once; its cap is %d", seen.Peak, limit)
	}
	if seen.Attempts < sessions {
		t.Errorf("%d connections for %d sessions", seen.Attempts, sessions)
	}
}

// An idle connection that its server ends is closed in order and replaced.
func TestServerEndsIdleConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*wstest.Peer)
		code frame.CloseCode // of the answer; 0 for none
	}{
		{"close frame", func(p *wstest.Peer) { p.SendClose(1012, "new model") }, 1012},
		{"close frame without a code", func(p *wstest.Peer) { p.SendClose(frame.NoStatus, "") }, frame.NoStatus},
		{"close frame with a bad code", func(p *wstest.Peer) { p.Send(frame.Close, "\x03\xee") }, frame.ProtocolError},
		{"protocol error", func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) }, frame.ProtocolError},
		{"end of the stream", func(p *wstest.Peer) { _ = p.Close() }, 0},
		{"reset", (*wstest.Peer).Reset, 0},
	} {
		for _, profile := range []string{"echo", "one-shot"} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				r, p := newIdleRig(t, profile, nil)
				c.end(p)
				if c.code != 0 {
					h, payload, err := p.Next()
					code, _, _ := frame.ParseClose(payload)
					if err != nil || h.Opcode != frame.Close || code != c.code {
						t.Fatalf("got %v %q, %v; want close %v", h.Opcode, payload, err, c.code)
					}
					if s := r.Stats(); s.Retiring != 1 || s.Dialing != 0 {
						t.Errorf("dialed while the server still has the old connection: %+v", s)
					}
					_ = p.Close()
				}
				r.accepted()
				r.ready(1)
				if s := r.Stats(); s.Totals.RetiredIdle != 1 || s.Totals.Dialed != 2 || s.Used() != 1 {
					t.Errorf("stats: %+v", s)
				}
				// An end in order is no failure. The worker reports that it has dialed after the connection is there.
				wstest.Eventually(t, "the server counts as reachable", func() bool { return r.Health().Reachable })
			})
		}
	}
}

// The server's close frame is answered and our side of the stream ended at once; the server is not kept waiting.
func TestCloseIsAnsweredWithEnd(t *testing.T) {
	t.Parallel()
	_, p := newIdleRig(t, "echo", nil)
	p.SendClose(1001, "restart")
	p.ExpectClose(1001, "closed by the server: 1001 restart")
	p.ExpectEnd()
}

// A server that never plays its part in closing keeps the slot for a limited time only.
func TestServerNeverCloses(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", func(o *Options, _ *wstest.Server) { o.CloseTimeout = 20 * time.Millisecond })
	p.Send(frame.Text, "unsolicited")
	p.ExpectClose(frame.PolicyViolation, "unsolicited message")
	r.accepted()
	p.ExpectEnd()
}

// With a profile that reuses connections, data while idle may be another session's: the connection is retired. The
// beginning of a header is enough to tell.
func TestDataWhileIdle(t *testing.T) {
	t.Parallel()
	whole := wstest.ServerFrame(true, frame.Text, "unsolicited")
	for name, data := range map[string][]byte{
		"frame": whole, "fragment": wstest.ServerFrame(false, frame.Binary, "x"), "half a frame": whole[:5],
		"header": whole[:2], "half a header": whole[:1], "behind a ping": append(wstest.ServerFrame(true, frame.Ping, ""), whole[0]),
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", nil)
			p.SendBytes(data)
			if name == "behind a ping" {
				p.Expect(frame.Pong, "")
			}
			p.ExpectClose(frame.PolicyViolation, "unsolicited message")
			p.SendBytes(whole) // dropped
			p.SendClose(frame.PolicyViolation, "")
			p.ExpectEnd()
			_ = p.Close()
			r.accepted()
			r.ready(1)
		})
	}
}

// With a profile of one session per connection, data while idle is for its client.
func TestGreetingIsKept(t *testing.T) {
	t.Parallel()
	hello, more := wstest.ServerFrame(true, frame.Text, "hello"), wstest.ServerFrame(false, frame.Text, strings.Repeat("m", 1000))
	for name, early := range map[string][]byte{"with the answer": append(bytes.Clone(hello), more[:500]...), "after it": nil} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "one-shot", func(_ *Options, s *wstest.Server) { s.Answer = wstest.Accept("", early...) })
			ping := wstest.ServerFrame(true, frame.Ping, "seen?")
			rest := more[500+len(ping):]
			if early == nil {
				p.SendBytes(append(bytes.Clone(hello), more[:500]...))
			}
			p.SendBytes(ping) // within a frame, so it is payload
			want := append(append(bytes.Clone(hello), more[:500]...), ping...)
			s := r.use()
			p.SendBytes(rest)
			s.expectSaid(append(want, rest...))
			s.end(0)
		})
	}
}

func TestGreetingHasLimit(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "one-shot", nil)
	p.SendBytes(wstest.ServerFrame(true, frame.Binary, strings.Repeat("x", maxGreeting+1)))
	p.ExpectClose(frame.MessageTooBig, "more than 64 KiB before the session")
	_ = p.Close()
	r.accepted()
}

// Pings that come together get one answer.
func TestPingsTogether(t *testing.T) {
	t.Parallel()
	_, p := newIdleRig(t, "echo", nil)
	const pings = 32 << 10
	p.SendBytes(append(bytes.Repeat([]byte{0x89, 0}, pings-1), 0x89, 1, 'x'))
	answers := 0
	for last := ""; last != "x"; answers++ {
		h, payload, err := p.Next()
		if err != nil || h.Opcode != frame.Pong {
			t.Fatalf("got %v %q, %v", h.Opcode, payload, err)
		}
		last = string(payload)
	}
	if answers > pings/100 { // one for each time that the socket is read
		t.Errorf("%d answers to %d pings", answers, pings)
	}
}

// Pings are answered whether the connection is idle or leased by a session that has not begun; pongs are swallowed.
func TestPingsWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"echo", "one-shot"} {
		t.Run(profile, func(t *testing.T) {
			r, p := newIdleRig(t, profile, nil)
			ping := func(text string) {
				t.Helper()
				p.Send(frame.Pong, "unsolicited")
				b := wstest.ServerFrame(true, frame.Ping, text)
				p.SendBytes(b[:1])
				p.SendBytes(b[1:])
				p.Expect(frame.Pong, text)
			}
			ping("")
			ping("idle")
			ping(strings.Repeat("x", 125))
			s := &session{t: t, conn: r.lease()}
			ping("leased")
			if !s.begin() {
				t.Fatal("no longer alive")
			}
			s.end(0)
		})
	}
}

// Idle connections move between loops and continue as before.
func TestMove(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", func(o *Options, _ *wstest.Server) { o.CloseTimeout = 50 * time.Millisecond })
	s := &session{t: t, conn: r.lease()}
	c := s.conn
	loops := r.loops.Loops()
	move := func() {
		s.on(func() { c.MoveTo(loops[1-c.stream.Loop().ID()]) })
	}
	half := wstest.ServerFrame(true, frame.Ping, "in two pieces")
	for range 50 {
		p.SendBytes(half[:5])
		move()
		p.SendBytes(half[5:])
		p.Expect(frame.Pong, "in two pieces")
	}
	var at *loop.Loop
	s.on(func() { at = c.stream.Loop() })
	move()
	if !s.begin() {
		t.Fatal("no longer alive")
	}
	s.on(func() {
		if c.stream.Loop() == at {
			t.Error("not moved")
		}
	})
	s.end(0)
	// Its timers go with it.
	p.Send(frame.Text, "unsolicited")
	p.ExpectClose(frame.PolicyViolation, "unsolicited message")
	move()
	r.accepted()
	p.ExpectEnd()
}
