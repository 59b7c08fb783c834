package backend

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Failures of the way in which a backend was dialed before say nothing about the way in which it is dialed now.

// However long an open circuit still has to wait: after a renewal the backend is tried at once, and what follows counts from the
// beginning.
func TestRenewalTriesAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.refuse(0) }, func(f *fake) {
		f.after(time.Hour)
		if s := f.pool.Stats(); s.Usable {
			t.Fatalf("the circuit is not open: %+v", s)
		}
		f.accept(0)
		f.worker.renew()
		f.after(0) // not a moment later
		f.expect(2, 0)
		if h := f.report.get(); h.Circuit != "closed" || !h.Reachable || !f.pool.Stats().Usable {
			t.Errorf("health: %+v", h)
		}
	})
}

// One that still fails waits no longer than after a first failure.
func TestRenewalBeginsBackoffAnew(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.refuse(0) }, func(f *fake) {
		f.after(time.Hour)
		before, _ := f.attempts()
		f.worker.renew()
		f.after(health.FirstBackoff)
		if after, _ := f.attempts(); len(after) < len(before)+2 {
			t.Errorf("%d attempts within %v", len(after)-len(before), health.FirstBackoff)
		}
		if h := f.report.get(); h.Circuit == "closed" || f.pool.Stats().Usable {
			t.Errorf("without a connection the circuit is closed: %+v", h)
		}
	})
}

// Sessions that were broken belong to the old way as well, those that have not opened the circuit yet included. It does not close
// before a connection was dialed.
func TestRenewalForgetsBrokenSessions(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		f.broken(4)
		f.worker.renew()
		f.after(0)
		f.broken(4)
		if !f.pool.Stats().Usable {
			t.Error("four and four broken sessions have opened it")
		}
		f.accept(time.Second)
		f.broken(1)
		f.worker.renew()
		f.after(time.Second / 2)
		if f.pool.Stats().Usable {
			t.Error("it is in use before anything was dialed in the new way")
		}
		f.after(time.Second / 2)
		if !f.pool.Stats().Usable {
			t.Errorf("not in use after a dial: %+v", f.report.get())
		}
	})
}

// Dials of the old way that hang are given up, and what becomes of them counts neither way.
func TestRenewalGivesDialsUp(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 1, Warm: 1}, func(f *fake) {
		f.set(func() { f.dial = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } })
	}, func(f *fake) {
		f.accept(0)
		f.worker.renew()
		f.after(outdatedGrace)
		f.expect(1, 0)
		if s := f.pool.Stats(); s.Totals.DialFailed != 0 {
			t.Errorf("the dial that was given up is a failure: %+v", s.Totals)
		}
		f.log.expect(t, reachable)
	})
}

// Dials of the old way that succeed soon are not given up: the server would hold them for a moment, beside those of the new way.
func TestRenewalLeavesDialsAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 3, Warm: 3}, func(f *fake) {
		f.accept(outdatedGrace - time.Millisecond)
		dial := f.dial
		f.set(func() {
			f.dial = func(ctx context.Context) error {
				err := dial(ctx)
				if ctx.Err() != nil {
					t.Error("a dial was given up")
				}
				return err
			}
		})
	}, func(f *fake) {
		f.pool.Renew()
		f.worker.renew()
		f.until("all are of the new way", func() bool { return f.pool.Stats().Idle == 3 && f.outdated() == 0 })
	})
}

// A dial that hangs takes the only place; it is given up for one that says what the server wants to hear.
func TestUpdateGivesDialsUp(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.DialTimeout = time.Hour
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			protocol := req.Header.Get("Sec-WebSocket-Protocol")
			asked <- protocol
			if protocol == "" {
				return wstest.Hang(nc, req)
			}
			return wstest.Accept(protocol)(nc, req)
		}
	})
	wstest.Receive(t, asked, "the server is asked")
	r.change(true, func(o *Options) { o.Target.Protocol = "v2" })
	r.ready(1)
	if s := r.Stats(); <-asked != "v2" || s.Totals.DialFailed != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A greeting that does not come is not waited for any longer either.
func TestUpdateGivesGreetingsUp(t *testing.T) {
	t.Parallel()
	greeting := frame.AppendMessage(nil, frame.Binary, true, []byte("ready"), false)
	asked := make(chan string, 10)
	r := newRig(t, "kyutai", func(o *Options, s *wstest.Server) {
		o.Variants = new(Variants)
		s.Serve = wstest.Echo
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			protocol := req.Header.Get("Sec-WebSocket-Protocol")
			asked <- protocol
			if protocol == "" {
				return wstest.Accept("")(nc, req)
			}
			return wstest.Accept(protocol, greeting...)(nc, req)
		}
	})
	wstest.Receive(t, asked, "the server is asked")
	r.change(true, func(o *Options) { o.Target.Protocol = "v2" })
	r.ready(1)
	if s := r.Stats(); s.Totals.DialFailed != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// What becomes of connections that were dialed in the old way does not count against the new one.
func TestOldConnectionsDoNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings = pool.Settings{Cap: 4, Warm: 1, Weight: 1}
		o.CircuitFailures = 1
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			return wstest.Accept(req.Header.Get("Sec-WebSocket-Protocol"))(nc, req)
		}
	})
	r.ready(1)
	old := r.use()
	r.change(true, func(o *Options) { o.Target.Protocol = "v2" })
	old.finish(Ending{Fault: "server broke it"})
	wstest.Eventually(t, "a connection of the new way is idle, and none of the old one", func() bool {
		all := r.Variants()
		return len(all) == 1 && all[0].Idle == 1 && all[0].Outdated == 0
	})
	if h := r.Health(); h.CircuitOpened != 0 || h.Broken != 1 {
		t.Errorf("health: %+v", h)
	}
	fresh := r.use()
	fresh.finish(Ending{Fault: "server broke it"})
	wstest.Eventually(t, "one of the new way does count", func() bool { return r.Health().CircuitOpened == 1 })
}

// A probe that failed asks again at once, and its next answer is the verdict.
func TestUpdateProbesAnew(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings = pool.Settings{Cap: 4, Warm: 0, Weight: 1}
		o.Probe = &Probe{Interval: time.Hour, Timeout: wstest.Timeout, Fall: 1, Rise: 2}
		s.Serve = wstest.Echo
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			if !well.Load() {
				return wstest.Refuse(http.StatusUnauthorized, "no")(nc, req)
			}
			return wstest.Accept("")(nc, req)
		}
	})
	wstest.Eventually(t, "the probe fails", func() bool { return r.Health().Probe == "down" && !r.Stats().Usable })
	well.Store(true)
	r.change(true, func(*Options) {})
	wstest.Eventually(t, "the probe succeeds", func() bool { return r.Health().Probe == "up" && r.Stats().Usable })
}
