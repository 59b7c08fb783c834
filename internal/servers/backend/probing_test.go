package backend

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Probes over real sockets.

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestProbeHTTP(t *testing.T) {
	t.Parallel()
	hangs, hung := make(chan struct{}), make(chan struct{})
	var agent, method atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent.Store(r.UserAgent())
		method.Store(r.Method)
		switch r.URL.Path {
		case "/hang":
			close(hangs)
			<-r.Context().Done()
			close(hung)
		case "/redirect":
			http.Redirect(w, r, "/200", http.StatusFound)
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/200":
			_, _ = w.Write([]byte("ready\n"))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	for path, want := range map[string]string{
		"/200": "", "/204": "", "/500": "503 Service Unavailable", "/redirect": "302 Found", "/hang": "context canceled",
	} {
		ctx, cancel := context.WithCancel(wstest.Context(t))
		if path == "/hang" { // the probe's time is over when the server has been asked
			go func() { <-hangs; cancel() }()
		}
		err := probeHTTP(ctx, parse(t, s.URL+path), new(handshake.Target))
		cancel()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	<-hung // the server sees that the proxy has given up
	if agent.Load() != "wsbouncer" || method.Load() != http.MethodGet {
		t.Errorf("%v by %v", method.Load(), agent.Load())
	}
	// What keeps a password in its URL does not show it.
	if err := probeHTTP(wstest.Context(t), parse(t, strings.Replace(s.URL, "//", "//me:secret@", 1)), new(handshake.Target)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error: %v", err)
	}
	if err := probeHTTP(wstest.Context(t), parse(t, "http://"+wstest.FreeAddress(t)), new(handshake.Target)); err == nil {
		t.Error("no server listens, and all is well")
	}
}

// probeByUpgrade probes once, if there is a place for it.
func (r *rig) probeByUpgrade(ctx context.Context) error {
	done, ok := r.placeForProbe(ctx, nil)
	if !ok {
		return errNoRoom
	}
	defer done()
	return r.probe(ctx, nil)
}

// A probe by upgrade has a place of the pool while it runs, and closes its connection in order.
func TestProbeUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Settings.Cap = 2 })
	r.ready(1)
	r.accepted()
	result := make(chan error)
	go func() { result <- r.probeByUpgrade(wstest.Context(t)) }()
	p := r.accepted()
	if s := r.Stats(); s.Dialing != 1 || s.Used() != 2 {
		t.Errorf("it has no place: %+v", s)
	}
	p.ExpectClose(frame.NormalClosure, "")
	if err := r.probeByUpgrade(wstest.Context(t)); !errors.Is(err, errNoRoom) {
		t.Errorf("a third connection of two: %v", err)
	}
	_ = p.Close() // no answer, which is none of its business
	if err := <-result; err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.Used() != 1 || s.Totals.Dialed != 1 || s.Totals.DialFailed != 0 {
		t.Errorf("it has kept its place: %+v", s)
	}
}

// One that fails gives its place back, too.
func TestProbeUpgradeFails(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]wstest.Answer{
		"refused": wstest.Refuse(http.StatusServiceUnavailable, "loading"),
		"hangs":   wstest.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
				o.Settings.Cap, o.Settings.Warm, s.Answer = 1, 0, answer
			})
			ctx, cancel := context.WithCancel(wstest.Context(t))
			defer cancel()
			result := make(chan error)
			go func() { result <- r.probeByUpgrade(ctx) }()
			if name == "hangs" { // the probe's time is over when the server has been asked
				wstest.Eventually(t, "the server is asked", func() bool { return r.server.Counts().Upgrades > 0 })
				cancel()
			}
			if err := <-result; err == nil || errors.Is(err, errNoRoom) {
				t.Errorf("error: %v", err)
			}
			if s := r.Stats(); s.Used() != 0 {
				t.Errorf("it has kept its place: %+v", s)
			}
		})
	}
}

// A server that accepts the connection but never ends it is well; the probe ends in its time.
func TestProbeUpgradeIsNotClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Settings.Warm = 0 })
	ctx, cancel := context.WithCancel(wstest.Context(t))
	defer cancel()
	result := make(chan error)
	go func() { result <- r.probeByUpgrade(ctx) }()
	r.accepted().ExpectClose(frame.NormalClosure, "")
	cancel() // as when its time is over
	if err := <-result; err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.Used() != 0 {
		t.Errorf("it has kept its place: %+v", s)
	}
}

// The probe takes a backend out of service and brings it back.
func TestProbing(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusOK)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer web.Close()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		s.Serve = wstest.Echo
		o.Probe = &Probe{URL: parse(t, web.URL), Interval: 5 * time.Millisecond, Timeout: wstest.Timeout, Fall: 2, Rise: 2}
	})
	verdict := func(probe string, usable bool) {
		t.Helper()
		wstest.Eventually(t, "the probe is "+probe, func() bool { return r.Health().Probe == probe && r.Stats().Usable == usable })
	}
	verdict("up", true)
	r.ready(1)
	status.Store(http.StatusInternalServerError)
	verdict("down", false)
	if h := r.Health(); !strings.Contains(h.ProbeReason, "500") {
		t.Errorf("health: %+v", h)
	}
	if _, ok := r.tryLease(); ok {
		t.Error("leased while the probe fails")
	}
	status.Store(http.StatusOK)
	verdict("up", true)
	r.use().end(0)
}

// A probe by upgrade that finds no place says nothing.
func TestProbingWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		s.Serve = wstest.Echo
		o.Probe = &Probe{Interval: 5 * time.Millisecond}
		o.Settings.Warm = 0
	})
	wstest.Eventually(t, "there is room", func() bool { return r.Health().Probe == "up" })
	s := r.use() // takes the only place
	r.server.HangUp(true)
	before := r.server.Counts().Attempts
	for range 10 {
		if err := r.probeByUpgrade(wstest.Context(t)); !errors.Is(err, errNoRoom) {
			t.Errorf("error: %v", err)
		}
	}
	if h := r.Health(); h.Probe != "up" {
		t.Errorf("health: %+v", h)
	}
	if c := r.server.Counts(); c.Attempts != before || c.Peak > 1 {
		t.Errorf("%d attempts, %d at once", c.Attempts-before, c.Peak)
	}
	s.end(0)
}

// Out of service, a probe by upgrade finds a place although the pool is full of idle connections: one of them closes. So the probes bring the backend
// back, whose worker has filled the pool as soon as the server could be dialed again.
func TestProbingBringsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(_ *Options, s *wstest.Server) { s.Serve = wstest.Echo })
	r.ready(1)
	r.worker.probed(false, "500")
	wstest.Eventually(t, "it is out of service", func() bool { return !r.Stats().Usable })
	for range 2 {
		r.ready(1)
		before := r.server.Counts().Upgrades
		if err := r.probeByUpgrade(wstest.Context(t)); err != nil {
			t.Fatal(err)
		}
		if n := r.server.Counts().Upgrades; n == before {
			t.Error("the server was not asked")
		}
	}
	if n := r.Stats().Totals.Reasons[pool.Suspected]; n != 2 {
		t.Errorf("%d connections made room; want 2", n)
	}
	r.worker.probed(true, "")
	r.use().end(0)
}

// A probe that is no longer wanted while it waits for its place gives it up.
func TestProbingGivesUpItsPlace(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", nil)
	r.worker.probed(false, "500")
	wstest.Eventually(t, "it is out of service", func() bool { return !r.Stats().Usable })
	ctx, cancel := context.WithCancel(wstest.Context(t))
	defer cancel()
	result := make(chan error)
	go func() { result <- r.probeByUpgrade(ctx) }()
	p.ExpectClose(frame.GoingAway, "")
	cancel()
	if err := <-result; !errors.Is(err, errNoRoom) {
		t.Errorf("error: %v", err)
	}
	_ = p.Close()
	r.accepted()
	r.ready(1)
}

// A server that is full works: a probe by upgrade that it refuses beside connections that it holds says nothing, like a dial. Other answers are failures.
func TestProbingFullServer(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		s.Serve = wstest.Echo
		s.Answer = wstest.AcceptUnless(func(*handshake.Request) *handshake.Refusal {
			if status := status.Load(); status != 0 {
				return &handshake.Refusal{Status: int(status)}
			}
			return nil
		})
		o.Settings.Cap, o.Settings.Warm = 2, 0
	})
	s := r.use()
	for code, full := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusTooManyRequests: true, http.StatusInternalServerError: false} {
		status.Store(int32(code))
		if err := r.probeByUpgrade(wstest.Context(t)); err == nil || errors.Is(err, errNoRoom) != full {
			t.Errorf("%d: %v; want no verdict: %v", code, err, full)
		}
	}
	if s := r.Stats(); s.Used() != 1 {
		t.Errorf("they have kept their places: %+v", s)
	}
	s.end(0)
}
