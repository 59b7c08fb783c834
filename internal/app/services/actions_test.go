package services

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// service returns the statistics of the only service.
func (r *rig) service() api.Service {
	r.t.Helper()
	all := r.stats().Services
	if len(all) != 1 {
		r.t.Fatalf("%d services", len(all))
	}
	return all[0]
}

// expectState expects the error of an action that does not fit the state.
func (r *rig) expectState(err error, says string) {
	r.t.Helper()
	if e := (*admin.Error)(nil); !errors.As(err, &e) || e.Kind != api.KindState || e.Text != says {
		r.t.Errorf("%v; want %s", err, says)
	}
}

// While a service is paused, its sessions continue and new clients wait, whatever is idle and whatever the configuration becomes.
// Then they are served.
func TestPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 3)
	r.serve("gpu-1", server.URL(), 3)
	running := r.join("/stt")
	if q, err := r.services.Pause("stt"); err != nil || q.Waiting != 0 || !r.service().Paused {
		t.Fatalf("Pause: %+v, %v", q, err)
	}
	_, err := r.services.Pause("stt")
	r.expectState(err, "service stt is paused already")
	answers := []<-chan int{r.waiting("stt"), r.waiting("stt")}
	running.echo("still here")
	if err := r.services.Ready(nil); err != nil {
		t.Errorf("a pause is no reason for a load balancer to send clients elsewhere: %v", err)
	}
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Queue = 7 }) })
	if s := r.service(); !s.Paused || s.Queue.Waiting != 2 || s.Queue.Limit != 7 {
		t.Errorf("after a change: %+v", s)
	}
	if b := r.backend("gpu-1"); b.Leased != 1 || b.Idle != 2 || !b.Usable {
		t.Errorf("while paused: %+v", b.Pool)
	}
	if q, err := r.services.Resume("stt"); err != nil || q.Waiting != 2 || r.service().Paused {
		t.Errorf("Resume: %+v, %v", q, err)
	}
	for _, answer := range answers {
		if status := wstest.Receive(t, answer, "a client that waited is answered"); status != http.StatusSwitchingProtocols {
			t.Errorf("a client that waited got %d", status)
		}
	}
	_, err = r.services.Resume("stt")
	r.expectState(err, "service stt is not paused")
	running.leave()
	r.settled()
}

// Clients wait no longer than they may.
func TestPauseAndQueueTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 1)
	r.serve("gpu-1", server.URL(), 1)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.QueueTimeout = 50 * time.Millisecond })
	})
	if _, err := r.services.Pause("stt"); err != nil {
		t.Fatal(err)
	}
	if _, status := r.ask("/stt", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a client that waited until the timeout got %d", status)
	}
	if s := r.service(); s.Queue.Totals.TimedOut != 1 || s.Queue.Waiting != 0 {
		t.Errorf("queue: %+v", s.Queue)
	}
}

// Without a queue, a paused service refuses. A service that is removed and added again is not paused.
func TestPauseWithoutQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 1)
	add := func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Queue = 0 })
		putBackend(c, "gpu-1", "stt", server.URL(), 1, nil)
	}
	r.apply(add)
	r.idle("gpu-1", 1)
	if _, err := r.services.Pause("stt"); err != nil {
		t.Fatal(err)
	}
	if _, status := r.ask("/stt", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a client of a paused service without a queue got %d", status)
	}
	r.apply(func(c *config.Content) {
		c.Backends, c.Services = map[string]config.Backend{}, map[string]config.Service{}
	})
	r.apply(add)
	r.idle("gpu-1", 1)
	if r.service().Paused {
		t.Error("a new service is paused")
	}
	r.join("/stt").leave()
}

// A recycled backend's connections are replaced: idle ones at once, and those in use when their sessions have ended. The server never
// has more than its cap: startServer fails the test otherwise.
func TestRecycle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 4)
	r.serve("gpu-1", server.URL(), 4)
	running := r.join("/stt")
	running.echo("before")
	n, err := r.services.Recycle("gpu-1")
	if err != nil || n != 4 {
		t.Fatalf("Recycle: %d, %v; want 4", n, err)
	}
	replaced := func(n uint64) func() bool {
		return func() bool {
			b := r.backend("gpu-1")
			return b.Totals.Reasons[pool.Outdated.String()] == n && b.Idle+b.Leased == 4 && b.Dialing+b.Retiring == 0
		}
	}
	wstest.Eventually(t, "the idle connections are replaced", replaced(3))
	running.echo("still on the old one")
	if b := r.backend("gpu-1"); b.Idle != 3 || b.Leased != 1 || b.Totals.Dialed != 7 || b.Circuit != "closed" {
		t.Errorf("while a session lasts: %+v", b.Pool)
	}
	running.leave()
	wstest.Eventually(t, "the last connection is replaced", replaced(4))
	r.settled()
	if b := r.backend("gpu-1"); b.Totals.Dialed != 8 {
		t.Errorf("%d connections were dialed in all; want 8", b.Totals.Dialed)
	}
}

// Sessions keep beginning and ending while a full backend is recycled again and again, and none fails.
func TestRecycleUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 3)
	r.serve("gpu-1", server.URL(), 3)
	for range 5 {
		first := r.join("/stt")
		if _, err := r.services.Recycle("gpu-1"); err != nil {
			t.Fatal(err)
		}
		second := r.join("/stt")
		first.echo("a")
		second.echo("b")
		first.leave()
		second.leave()
	}
	wstest.Eventually(t, "all are replaced", func() bool {
		b := r.backend("gpu-1")
		return b.Totals.Reasons[pool.Outdated.String()] >= 3 && b.Idle == 3 && !slices.ContainsFunc(b.Variants, func(v api.Variant) bool { return v.Outdated > 0 })
	})
	r.settled()
}

// A recycled backend whose circuit is open is tried at once.
func TestRecycleOpenCircuit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startMoody(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "gpu-1", "stt", server.URL, 1, nil)
	})
	r.idle("gpu-1", 1)
	drop(server, r.join("/stt"))
	wstest.Eventually(t, "the circuit opens", func() bool { return r.backend("gpu-1").Circuit == "open" })
	server.RefuseWith.Store(0)
	if _, err := r.services.Recycle("gpu-1"); err != nil {
		t.Fatal(err)
	}
	wstest.Eventually(t, "the circuit closes", func() bool { return r.backend("gpu-1").Circuit == "closed" })
	r.join("/stt").leave()
}

// Names that nothing has are named together with those that there are.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 1)
	r.serve("gpu-1", server.URL(), 1)
	_, pause := r.services.Pause("sst")
	_, resume := r.services.Resume("sst")
	_, recycle := r.services.Recycle("gpu-2")
	for _, c := range []struct {
		err         error
		what, known string
	}{{pause, "service", "stt"}, {resume, "service", "stt"}, {recycle, "backend", "gpu-1"}} {
		if e := (*admin.Error)(nil); !errors.As(c.err, &e) || e.Kind != api.KindUnknown || !strings.HasPrefix(e.Text, "unknown "+c.what) || e.Nearest != c.known {
			t.Errorf("%v; want an unknown %s beside %s", c.err, c.what, c.known)
		}
	}
	session := r.join("/stt")
	r.apply(func(c *config.Content) { delete(c.Backends, "gpu-1") })
	_, err := r.services.Recycle("gpu-1")
	r.expectState(err, "backend gpu-1 was removed: its connections close when their sessions end")
	session.leave()
}
