package backend

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What a server says between the lease of a connection and the beginning of the session.

// What a one-shot server says is the session's, which leased the connection before: a close frame, a protocol error, more than is kept
// for a session that is not there yet. Only before the lease it is the pool's.
func TestSaidBeforeSession(t *testing.T) {
	t.Parallel()
	for name, said := range map[string][]byte{
		"close":          append(wstest.ServerFrame(true, frame.Text, "answer"), wstest.ServerFrame(true, frame.Close, "\x03\xe9over")...),
		"protocol error": {0x83, 0},
		"broken ping":    {0x09, 0},
		"masked ping":    {0x89, 0x80, 0, 0, 0, 0},
		"large message":  wstest.ServerFrame(true, frame.Binary, strings.Repeat("x", 4*maxGreeting)),
		"behind a ping":  append(wstest.ServerFrame(true, frame.Ping, "are you there?"), 0x83, 0),
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "one-shot", nil)
			kept := wstest.ServerFrame(true, frame.Text, "kept")
			p.SendBytes(kept)
			p.Send(frame.Ping, "kept?")
			p.Expect(frame.Pong, "kept?")
			c := r.lease()
			p.SendBytes(said)
			s := &session{t: t, conn: c}
			s.until("it is noticed", func() bool { return c.stream.Paused() })
			if !s.begin() {
				t.Fatal("not alive")
			}
			data := said
			switch name {
			case "close":
				data = said[:8]
			case "protocol error", "broken ping", "masked ping", "behind a ping":
				data = nil
			}
			s.expectSaid(append(kept, data...))
			s.end(0)
		})
	}
}

// A connection that is given back unused is read again.
func TestSaidBeforeGivingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, "one-shot", nil)
	r.ready(1)
	p, c := r.accepted(), r.lease()
	hello := wstest.ServerFrame(true, frame.Text, "hello")
	p.SendBytes(hello)
	s := &session{t: t, conn: c}
	s.until("it is noticed", func() bool { return c.stream.Paused() })
	c.ReturnUnused()
	p.Send(frame.Ping, "are you there?")
	p.Expect(frame.Pong, "are you there?")
	again := r.use()
	if string(again.greeting) != string(hello) {
		t.Errorf("greeting %q", again.greeting)
	}
	again.end(0)
}

// A server whose connections are lost between lease and session, again and again, counts as not reachable: clients that wait
// must not make the proxy flood it with dials.
func TestLostBeforeSession(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*wstest.Peer){
		"end of the stream": func(p *wstest.Peer) { _ = p.Close() },
		"data":              func(p *wstest.Peer) { p.Send(frame.Text, "unasked") },
		"close frame":       func(p *wstest.Peer) { p.SendClose(1013, "") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Settings.Warm = 0 })
			for range health.Strikes {
				var w pool.Waiter[*Conn]
				if c, ok, err := r.group.Acquire(&w); ok || err != nil {
					t.Fatal(c, ok, err)
				}
				p := r.accepted()
				s := &session{t: t, conn: <-w.Ready()}
				end(p)
				s.until("the loss is noticed", func() bool { return s.conn.cause() != nil })
				if s.begin() {
					t.Fatal("alive")
				}
				_ = p.Close()
				wstest.Eventually(t, "it is gone", func() bool { s := r.Stats(); return s.Used() == 0 })
			}
			wstest.Eventually(t, "the server counts as not reachable", func() bool { return !r.Health().Reachable })
			if h := r.Health(); !strings.HasPrefix(h.Reason, lostEarlyReason) {
				t.Errorf("health: %+v", h)
			}
		})
	}
}

const lostEarlyReason = "connection lost before it served a session: "
