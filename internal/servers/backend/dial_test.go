package backend

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Dialing over real sockets; what the worker does after it is in worker_test.go and failing_test.go.

// A server that fails is tried again after a while, and when it is back the pool is filled. The log says so once each.
func TestServerFailsAndRecovers(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.CircuitFailures = 3
		s.HangUp(true)
	})
	const attempts = 5
	wstest.Eventually(t, "some attempts", func() bool { return r.server.Counts().Attempts >= attempts })
	// Four waits of up to 0.25, 0.5, 1 and 2 s: that they are so short together does not happen in a million runs, and
	// five attempts without waiting take a few milliseconds.
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("%d attempts within %v: the server is hammered", attempts, took)
	}
	wstest.Eventually(t, "they have failed", func() bool { return r.Stats().Totals.DialFailed >= attempts })
	if h := r.Health(); h.Reachable || h.Reason == "" || h.Since.Before(begun) || h.Circuit == "closed" || h.CircuitReason == "" {
		t.Errorf("health: %+v", h)
	}
	if s := r.Stats(); s.Idle != 0 || s.Usable {
		t.Errorf("stats: %+v", s)
	}
	r.server.HangUp(false)
	r.ready(1)
	wstest.Eventually(t, "it is reachable", func() bool { h := r.Health(); return h.Reachable && h.Circuit == "closed" })
	if h := r.Health(); h.Reason != "" || h.CircuitReason != "" || h.CircuitOpened != 1 {
		t.Errorf("health: %+v", h)
	}
	r.log.await(t, "WARN backend not reachable, trying again: ", "WARN backend taken out of service, circuit open: ",
		"INFO backend back in service, circuit closed", "INFO backend reachable")
}

// What the server answers instead of upgrading is the reason that people see.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer wstest.Answer
		change func(*Options)
		want   []string
	}{
		{"403", wstest.Refuse(http.StatusForbidden, "no token"), nil, []string{"403", "Forbidden"}},
		{"503", wstest.Refuse(http.StatusServiceUnavailable, "model is loading"), nil, []string{"503", "Service Unavailable"}},
		{"wrong subprotocol", wstest.Accept("stt.v2"), func(o *Options) { o.Target.Protocol = "stt.v1" }, []string{"stt.v1", "stt.v2"}},
		{"no subprotocol", wstest.Accept(""), func(o *Options) { o.Target.Protocol = "stt.v1" }, []string{"stt.v1"}},
		{"subprotocol that was not asked for", wstest.Accept("stt.v2"), nil, []string{"stt.v2"}},
		{
			"no answer", wstest.Hang,
			func(o *Options) { o.DialTimeout = 30 * time.Millisecond },
			// Where the machine is so busy that not even the connection was there in time, it is said so.
			[]string{"o"},
		},
		{"not HTTP", func(nc net.Conn, _ *handshake.Request) bool {
			_, _ = nc.Write([]byte("SSH-2.0-OpenSSH\r\n\r\n"))
			return false
		}, nil, []string{"HTTP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
				s.Answer = c.answer
				if c.change != nil {
					c.change(o)
				}
			})
			wstest.Eventually(t, "a failure", func() bool { return r.Stats().Totals.DialFailed > 0 && r.Health().Reason != notDialed })
			h := r.Health()
			for _, word := range c.want {
				if !strings.Contains(h.Reason, word) {
					t.Errorf("reason %q does not say %q", h.Reason, word)
				}
			}
			if s := r.Stats(); h.Reachable || s.Totals.Dialed != 0 || s.Idle != 0 {
				t.Errorf("health %+v, stats %+v", h, s)
			}
		})
	}
}

func TestNoServerListens(t *testing.T) {
	t.Parallel()
	target, err := handshake.ParseTarget("ws://" + wstest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Target, o.CircuitFailures = target, 1000 })
	wstest.Eventually(t, "some failures", func() bool { return r.Stats().Totals.DialFailed > 2 })
	if h := r.Health(); !strings.Contains(h.Reason, "refused") {
		t.Errorf("health: %+v", h)
	}
	r.log.await(t, "WARN backend not reachable, trying again: ")
}

// Close does not wait for a dial that takes long, and starts no other.
func TestCloseDuringLongDial(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.DialTimeout = time.Hour
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			asked <- struct{}{}
			return wstest.Hang(nc, req)
		}
	})
	<-asked
	r.Close(wstest.Context(t))
	if s := r.Stats(); s.Used() != 0 || s.Totals.DialFailed != 0 || s.Totals.Dialed != 0 {
		t.Errorf("stats: %+v", s) // the end of the proxy is no failure of the server
	}
	if h := r.Health(); h.Reason != notDialed {
		t.Errorf("health: %+v", h)
	}
	r.log.expect(t)
	if attempts := r.server.Counts().Attempts; attempts != 1 {
		t.Errorf("%d attempts", attempts)
	}
}

// The operator's wishes reach the pool, and the log says so once each.
func TestModes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		s.Serve, o.Mode = wstest.Echo, pool.Disabled
		o.Settings = pool.Settings{Cap: 4, Warm: 2, Weight: 3}
	})
	if s := r.Stats(); s.State != "disabled" || s.Used() != 0 || s.Weight != 3 {
		t.Errorf("stats: %+v", s)
	}
	r.SetMode(pool.Disabled)
	r.SetMode(pool.Enabled)
	r.ready(2)
	r.SetMode(pool.Draining)
	if _, ok := r.tryLease(); ok {
		t.Error("leased from a backend that is being drained")
	}
	r.Set(pool.Settings{Cap: 5, Warm: 3, Weight: 1})
	r.SetMode(pool.Enabled)
	r.ready(3)
	r.SetMode(pool.Disabled)
	wstest.Eventually(t, "all are closed", func() bool { s := r.Stats(); return s.Used() == 0 })
	if s := r.Stats(); s.Totals.Reasons[pool.Withdrawn] != 3 || s.Cap != 5 {
		t.Errorf("stats: %+v", s)
	}
}

// Defaults are filled in where nothing was said, and nowhere else; what the caller gave is not changed.
func TestDefaults(t *testing.T) {
	t.Parallel()
	probe := new(Probe)
	o := Options{Probe: probe}
	o.setDefaults()
	if o.DialTimeout != 5*time.Second || o.CloseTimeout != 2*time.Second ||
		o.PingTimeout != 5*time.Second || o.CircuitFailures != 5 {
		t.Errorf("defaults: %+v", o)
	}
	if want := (Probe{Interval: 10 * time.Second, Timeout: 2 * time.Second, Fall: 3, Rise: 2}); *o.Probe != want {
		t.Errorf("defaults of the probe: %+v", *o.Probe)
	}
	if *probe != (Probe{}) {
		t.Errorf("the caller's probe was changed: %+v", *probe)
	}
	o = Options{DialTimeout: 1, CloseTimeout: 3, PingTimeout: 5, CircuitFailures: 6}
	probe = &Probe{Interval: 1, Timeout: 2, Fall: 3, Rise: 4}
	o.Probe = probe
	want, wantProbe := o, *probe
	o.setDefaults()
	if *o.Probe != wantProbe {
		t.Errorf("what was set of the probe has changed: %+v", *o.Probe)
	}
	if o.Probe = probe; o != want {
		t.Errorf("what was set has changed: %+v", o)
	}
}
