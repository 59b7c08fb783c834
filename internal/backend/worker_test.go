package backend

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
)

// A server that fails is tried again after a while, and when it is back the pool is filled. The log says so once each.
func TestServerFailsAndRecovers(t *testing.T) {
	r := newRig(t, "echo", func(o *Options, s *server) {
		o.Cap, o.Warm, o.DialParallel = 8, 8, 1
		s.refuse = true
	})
	begun := time.Now()
	const attempts = 5
	eventually(t, "some attempts", func() bool { n, _ := r.server.counts(); return n >= attempts })
	// Four waits of up to 0.25, 0.5, 1 and 2 s: that they are so short together does not happen in a million runs, and
	// five attempts without waiting take a few milliseconds.
	if took := time.Since(begun); took < 50*time.Millisecond {
		t.Errorf("%d attempts within %v: the server is hammered", attempts, took)
	}
	if h := r.Health(); h.Reachable || h.Reason == "" || h.Since.Before(begun) {
		t.Errorf("health: %+v", h)
	}
	if s := r.Stats(); s.Totals.DialFailed < attempts-1 || s.Idle != 0 {
		t.Errorf("stats: %+v", s)
	}
	r.server.refusing(false)
	r.ready(8)
	eventually(t, "it is reachable", func() bool { return r.Health().Reachable })
	if h := r.Health(); h.Reason != "" {
		t.Errorf("health: %+v", h)
	}
	want := []string{"WARN backend not reachable, trying again", "INFO backend reachable"}
	if got := r.log.all(); !slices.Equal(got, want) {
		t.Errorf("log: %q; want %q", got, want)
	}
}

// Many dials that fail together are one failure, and while a server fails, one attempt at a time is made.
func TestOneAttemptAtATimeWhileFailing(t *testing.T) {
	r := newRig(t, "echo", func(o *Options, s *server) {
		o.Cap, o.Warm, o.DialParallel = 16, 16, 16
		s.refuse = true
	})
	eventually(t, "the first failures", func() bool { return r.Stats().Totals.DialFailed >= 16 })
	for range 3 {
		before := r.Stats().Totals.DialFailed
		eventually(t, "another", func() bool {
			s := r.Stats()
			if s.Dialing > 1 {
				t.Fatalf("%d attempts at a time", s.Dialing)
			}
			return s.Totals.DialFailed > before
		})
	}
}

// The wait after a failure is a random part of a time that doubles with each failure in a row, up to a limit, and is over
// with the first success.
func TestBackoff(t *testing.T) {
	r := newRig(t, "echo", nil)
	r.ready(1)
	w := new(worker)
	w.init(r.Backend)
	failed := dialResult{errors.New("refused")}
	for n := range 12 {
		bound := min(lastBackoff, firstBackoff<<n)
		longest, total := time.Duration(0), time.Duration(0)
		const samples = 100
		for range samples {
			w.dialing, w.failures, w.retryAt = 1, n, time.Time{}
			w.settle(failed)
			wait := time.Until(w.retryAt)
			longest, total = max(longest, wait), total+max(wait, 0)
		}
		if longest > bound {
			t.Errorf("%v after %d failures; want at most %v", longest, n+1, bound)
		}
		if mean := total / samples; mean < bound/4 || mean > bound*3/4 { // 8 standard deviations
			t.Errorf("%v on the average after %d failures; want half of %v", mean, n+1, bound)
		}
		if w.failures != n+1 {
			t.Errorf("%d failures counted; want %d", w.failures, n+1)
		}
	}
	before := w.retryAt
	w.dialing, w.retryAt = 1, time.Now().Add(time.Hour)
	w.settle(failed)
	if w.failures != 12 || w.retryAt.Before(before) {
		t.Error("a dial that failed together with others counted again")
	}
	w.dialing = 1
	w.settle(dialResult{})
	if w.failures != 0 || !w.retryAt.IsZero() || w.dialing != 0 {
		t.Errorf("after a success: %d failures, %d dialing", w.failures, w.dialing)
	}
	w.cancel()
	w.dialing = 1
	w.settle(failed)
	if w.failures != 0 || !w.health().Reachable {
		t.Error("a dial that was cut short by the end of the worker counts as a failure")
	}
}

// What the server answers instead of upgrading is the reason that people see.
func TestReasons(t *testing.T) {
	refuse := func(status int, text string) func(net.Conn, *handshake.Request) bool {
		return func(nc net.Conn, _ *handshake.Request) bool {
			handshake.Refuse(nc, &handshake.Refusal{Status: status, Reason: text})
			return false
		}
	}
	for _, c := range []struct {
		name   string
		answer func(net.Conn, *handshake.Request) bool
		change func(*Options)
		want   []string
	}{
		{"403", refuse(http.StatusForbidden, "no token"), nil, []string{"403", "Forbidden"}},
		{"503", refuse(http.StatusServiceUnavailable, "model is loading"), nil, []string{"503", "Service Unavailable"}},
		{"wrong subprotocol", accept("stt.v2"), func(o *Options) { o.Target.Protocol = "stt.v1" }, []string{"stt.v1", "stt.v2"}},
		{"no subprotocol", accept(""), func(o *Options) { o.Target.Protocol = "stt.v1" }, []string{"stt.v1"}},
		{"subprotocol that nobody asked for", accept("stt.v2"), nil, []string{"stt.v2"}},
		{
			"no answer", func(nc net.Conn, _ *handshake.Request) bool {
				_, _ = nc.Read(make([]byte, 1)) // until the proxy gives up
				return false
			},
			func(o *Options) { o.DialTimeout = 30 * time.Millisecond },
			[]string{"no answer to the upgrade request"},
		},
		{"not HTTP", func(nc net.Conn, _ *handshake.Request) bool {
			_, _ = nc.Write([]byte("SSH-2.0-OpenSSH\r\n\r\n"))
			return false
		}, nil, []string{"HTTP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, s *server) {
				s.answer = c.answer
				if c.change != nil {
					c.change(o)
				}
			})
			eventually(t, "a failure", func() bool { return r.Stats().Totals.DialFailed > 0 && r.Health().Reason != "not dialed yet" })
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

func TestNobodyListens(t *testing.T) {
	r := newRig(t, "echo", func(o *Options, s *server) { _ = s.listener.Close() })
	eventually(t, "a failure", func() bool { return strings.Contains(r.Health().Reason, "refused") })
	if got := r.log.all(); len(got) != 1 {
		t.Errorf("log: %q", got)
	}
}

// Close does not wait for a dial that takes long.
func TestCloseDuringLongDial(t *testing.T) {
	asked := make(chan struct{}, 100)
	r := newRig(t, "echo", func(o *Options, s *server) {
		o.DialTimeout = time.Hour
		s.answer = func(nc net.Conn, _ *handshake.Request) bool {
			asked <- struct{}{}
			_, _ = nc.Read(make([]byte, 1))
			return false
		}
	})
	<-asked
	begun := time.Now()
	r.Close(within(t))
	if took := time.Since(begun); took > testTimeout/2 {
		t.Errorf("took %v", took)
	}
	if s := r.Stats(); s.Used() != 0 || s.Totals.DialFailed != 1 {
		t.Errorf("stats: %+v", s)
	}
	if got := r.log.all(); len(got) != 0 {
		t.Errorf("log: %q", got) // the end of the proxy is no failure of the server
	}
}

// Defaults are filled in where nothing was said, and nowhere else.
func TestDefaults(t *testing.T) {
	var o Options
	o.setDefaults()
	if o.DialTimeout != 5*time.Second || o.ResetTimeout != 5*time.Second || o.CloseTimeout != 2*time.Second || o.DialParallel != 32 {
		t.Errorf("defaults: %+v", o)
	}
	o = Options{DialTimeout: 1, ResetTimeout: 2, CloseTimeout: 3, DialParallel: 4}
	o.setDefaults()
	if o.DialTimeout != 1 || o.ResetTimeout != 2 || o.CloseTimeout != 3 || o.DialParallel != 4 {
		t.Errorf("what was set has changed: %+v", o)
	}
}
