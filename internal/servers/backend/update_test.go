package backend

import (
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// change updates the backend's options.
func (r *rig) change(renew bool, f func(*Options)) {
	o := *r.options()
	target := *o.Target
	o.Target = &target
	f(&o)
	r.Update(o, renew)
}

// What a server was told in the handshake is told to others from now on: idle connections are replaced, and the one in use when
// its session has ended.
func TestUpdateRenews(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 10)
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings = pool.Settings{Cap: 6, Warm: 2, Weight: 1} // closing takes as long as the test lets it
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			protocol := req.Header.Get("Sec-WebSocket-Protocol")
			protocols <- protocol
			return wstest.Accept(protocol)(nc, req)
		}
	})
	r.ready(2)
	old := r.use()
	r.ready(2)
	r.change(true, func(o *Options) { o.Target.Protocol = "v2"; o.Name = "renamed" })
	if r.Name() != "renamed" {
		t.Errorf("the name is %s", r.Name())
	}
	wstest.Eventually(t, "the idle connections are replaced", func() bool {
		s := r.Stats()
		return s.Idle == 2 && s.Totals.Reasons[pool.Outdated] == 2
	})
	fresh := r.use()
	if got := [2]string{old.conn.Protocol(), fresh.conn.Protocol()}; got != [2]string{"", "v2"} {
		t.Errorf("the subprotocols are %q", got)
	}
	if got := old.end(0); got != Discarded {
		t.Errorf("the connection with the old subprotocol was %v", got)
	}
	if got := fresh.end(0); got != Returned {
		t.Errorf("the new connection was %v", got)
	}
	for _, want := range []string{"", "", "", "v2", "v2"} { // one took the place of the one in use
		if got := <-protocols; got != want {
			t.Errorf("dialed with %q; want %q", got, want)
		}
	}
}

// What only the proxy cares for needs no other connections.
func TestUpdateKeepsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", nil)
	r.ready(1)
	s := r.use()
	r.change(false, func(o *Options) {
		o.Settings.Cap, o.Settings.Warm = 3, 2
		o.CircuitFailures, o.MaxIdle = 7, time.Minute
		o.MaxSessions = 1
	})
	r.ready(2)
	if got := s.end(0); got != Discarded {
		t.Errorf("after as many sessions as are allowed now it was %v", got)
	}
	wstest.Eventually(t, "it is closed as worn out", func() bool { return r.Stats().Totals.Reasons[pool.WornOut] == 1 })
	if n := r.Stats().Totals.Reasons[pool.Outdated]; n != 0 {
		t.Errorf("%d connections were outdated", n)
	}
}

// A probe can come, change and go.
func TestUpdateProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings = pool.Settings{Cap: 2, Warm: 1, Weight: 1}
		s.Answer = wstest.Accept("")
	})
	r.ready(1)
	probe := &Probe{Interval: time.Millisecond, Timeout: 10 * time.Millisecond, Fall: 1, Rise: 1} // the server does not answer the close
	r.change(false, func(o *Options) { o.Probe = probe })
	wstest.Eventually(t, "the probe succeeds", func() bool { return r.Health().Probe == "up" })
	r.change(false, func(o *Options) {
		o.Probe = &Probe{Interval: time.Millisecond, Timeout: time.Nanosecond, Fall: 1, Rise: 1}
	})
	wstest.Eventually(t, "another probe fails", func() bool { return r.Health().Probe == "down" && !r.Stats().Usable })
	r.change(false, func(o *Options) { o.Probe = nil })
	wstest.Eventually(t, "without a probe it is used", func() bool { return r.Health().Probe == "off" && r.Stats().Usable })
}
