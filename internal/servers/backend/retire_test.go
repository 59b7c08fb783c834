package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Why connections are retired, as statistics tell it. The reasons that only the worker has (surplus, suspected, withdrawn)
// are tested with it.
func TestReasonsForRetiring(t *testing.T) {
	t.Parallel()
	// A session that ends like this.
	ends := func(e Ending) func(*rig, *wstest.Peer) {
		return func(r *rig, _ *wstest.Peer) { r.use().finish(e) }
	}
	for _, c := range []struct {
		name    string
		profile string
		change  func(*Options, *wstest.Server)
		play    func(*rig, *wstest.Peer) // what retires the only connection
		want    pool.Reason
	}{
		{"idle, close frame", "echo", nil, func(_ *rig, p *wstest.Peer) { p.SendClose(1001, "") }, pool.Closed},
		{"idle, end of the stream", "echo", nil, func(_ *rig, p *wstest.Peer) { _ = p.Close() }, pool.Lost},
		{"idle, reset", "echo", nil, func(_ *rig, p *wstest.Peer) { p.Reset() }, pool.Lost},
		{"idle, reserved bits", "echo", nil, func(_ *rig, p *wstest.Peer) { p.SendBytes([]byte{0xf2, 0}) }, pool.Broken},
		{"idle, masked frame", "one-shot", nil, func(_ *rig, p *wstest.Peer) { p.SendBytes([]byte{0x82, 0x80}) }, pool.Broken},
		{"idle, data", "echo", nil, func(_ *rig, p *wstest.Peer) { p.Send(frame.Text, "what?") }, pool.Unsolicited},
		{"idle, no pong", "echo", func(o *Options, _ *wstest.Server) {
			o.PingInterval, o.PingTimeout = 10*time.Millisecond, 10*time.Millisecond
		}, func(*rig, *wstest.Peer) {}, pool.Silent},
		{"idle, old", "echo", func(o *Options, _ *wstest.Server) { o.MaxAge = 50 * time.Millisecond }, func(*rig, *wstest.Peer) {}, pool.Aged},
		{"idle, end of the proxy", "echo", nil, func(r *rig, _ *wstest.Peer) { r.Close(wstest.Context(r.t)) }, pool.Shutdown},

		{"session, one-shot", "one-shot", nil, ends(Ending{}), pool.Served},
		{"session, mid-message", "echo", nil, ends(Ending{Traffic: profile.Traffic{SendingMessage: true}}), pool.Cut},
		{"session, mid-frame", "echo", nil, ends(Ending{MidFrame: true}), pool.Cut},
		{"session, mid-frame of one-shot", "one-shot", nil, ends(Ending{MidFrame: true}), pool.Cut},
		{"session, fault", "one-shot", nil, ends(Ending{Fault: "reserved opcode"}), pool.Broken},
		{"session, half a header came", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			p.SendBytes([]byte{0x82})
			wstest.Eventually(r.t, "it has arrived", func() (held bool) {
				s.on(func() { held = s.conn.stream.Held() > 0 })
				return held
			})
			s.end(0)
		}, pool.Unclean},
		{"session, close frame sent", "one-shot", nil, func(r *rig, _ *wstest.Peer) {
			s := r.use()
			s.on(func() { s.conn.SendClose(nil) })
			s.end(0)
		}, pool.Served},
		{"session, close frame received", "one-shot", nil, func(r *rig, _ *wstest.Peer) {
			s := r.use()
			s.on(s.conn.CloseReceived)
			s.end(0)
		}, pool.Closed},
		{"session, end of the stream", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			_ = p.Close()
			s.over()
			s.finish(Ending{Fault: "vanished"})
		}, pool.Lost},
		{"session, end of the stream at the same time", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			_ = p.Close()
			s.over()
			s.end(0)
		}, pool.Lost},
		{"session, end of the stream after a close frame", "one-shot", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			s.on(func() { s.conn.SendClose(nil) })
			_ = p.Close()
			s.over()
			s.finish(Ending{Fault: "vanished"})
		}, pool.Served},

		{"reset, no answer", "echo", func(o *Options, _ *wstest.Server) { o.Profile = within(t, "echo", "reset", 10*time.Millisecond) }, func(r *rig, _ *wstest.Peer) {
			s := r.use()
			s.ask("1")
			s.end(1)
		}, pool.ResetFailed},
		{"reset, too many answers", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			s.ask("1")
			s.end(1)
			p.SendBytes(append(wstest.ServerFrame(true, frame.Text, "1"), wstest.ServerFrame(true, frame.Text, "2")...))
		}, pool.Unsolicited},
		{"reset, close frame", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			s.ask("1")
			s.end(1)
			p.SendClose(1001, "")
		}, pool.Closed},
		{"reset, end of the stream", "echo", nil, func(r *rig, p *wstest.Peer) {
			s := r.use()
			s.ask("1")
			p.Expect(frame.Text, "1") // what was not read would make it a reset
			s.end(1)
			_ = p.Close()
		}, pool.Lost},
		{"after its sessions", "echo", func(o *Options, _ *wstest.Server) { o.MaxSessions = 1 }, ends(Ending{}), pool.WornOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.profile, func(o *Options, s *wstest.Server) {
				o.CloseTimeout = 10 * time.Millisecond // how the server takes it does not matter here
				if c.change != nil {
					c.change(o, s)
				}
			})
			if c.change == nil { // otherwise it may not stay idle for long
				r.ready(1)
			}
			p := r.accepted()
			c.play(r, p)
			wstest.Eventually(t, "it is retired", func() bool { return r.Stats().Totals.Reasons.Sum() > 0 })
			// What came after the first has the same reason.
			if got := r.Stats().Totals.Reasons; got[c.want] != got.Sum() {
				t.Errorf("reasons %+v; want %v", got.Named(), c.want)
			}
		})
	}
}

// over waits until the session has seen the end of the stream.
func (s *session) over() {
	s.t.Helper()
	wstest.Eventually(s.t, "the end of the stream is seen", func() (over bool) {
		s.on(func() { over = s.conn.stream.Ended() })
		return over
	})
}

// Sessions that the server breaks take it out of service; the trial that succeeds brings it back.
func TestBrokenSessionsOverSockets(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings.Cap, o.Settings.Warm, o.CircuitFailures, s.Serve = 3, 2, 3, wstest.Echo
	})
	r.log.await(t, reachable)
	for range 3 {
		r.use().finish(Ending{Fault: "broke the protocol"})
	}
	wstest.Eventually(t, "it is back", func() bool { h := r.Health(); return h.CircuitOpened == 1 && h.Circuit == "closed" })
	if h := r.Health(); h.Broken != 3 || !h.Reachable {
		t.Errorf("health: %+v", h)
	}
	r.log.await(t, reachable, opened+"3 sessions in a row were broken: broke the protocol", closedAgain)
	r.use().end(0)
}

// A server that ends the connection in its own way once close frames are under way has broken nothing.
func TestClosingIsNoFault(t *testing.T) {
	t.Parallel()
	r := newRig(t, "one-shot", func(o *Options, s *wstest.Server) { o.CircuitFailures = 2 })
	for n := range 6 {
		s, p := r.use(), r.accepted()
		if n%2 == 0 {
			s.on(func() { s.conn.SendClose([]byte("\x03\xe8")) })
			p.ExpectClose(1000, "")
		} else {
			s.on(s.conn.CloseReceived)
		}
		_ = p.Close()
		s.over()
		s.finish(Ending{Fault: "connection lost"})
	}
	r.ready(1)
	if h := r.Health(); h.Broken != 0 || h.CircuitOpened != 0 {
		t.Errorf("health: %+v", h)
	}
	r.log.await(t, reachable)
}
