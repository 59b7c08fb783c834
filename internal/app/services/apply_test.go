package services

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// startSilent starts a server that accepts connections, and neither answers nor ends them. It says when a close frame has come,
// whose sender waits for the answer from then on.
func startSilent(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	closes, over := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, req, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetCloseHandler(func(int, string) error { return nil })
		if _, _, err := conn.ReadMessage(); websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			closes <- struct{}{}
		}
		<-over
	}))
	t.Cleanup(func() { close(over); server.Close() })
	return "ws" + strings.TrimPrefix(server.URL, "http"), closes
}

// promptly fails the test unless f returns without waiting for anybody.
func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(wstest.Timeout):
		t.Errorf("%s waits", what)
		<-done
	}
}

// A probe that hangs keeps no one from changing the configuration, nor monitoring from its answers.
func TestApplyDoesNotWaitForProbes(t *testing.T) {
	t.Parallel()
	url, asked := startSilent(t)
	probe := func(s *config.Service) {
		s.Probe, s.ProbeTimeout, s.ProbeInterval = "upgrade", 2*wstest.Timeout, 3*wstest.Timeout
	}
	for _, c := range []struct {
		name   string
		change func(*config.Content)
	}{
		{"probe off", func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Probe = "" }) }},
		{"another probe", func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.ProbeFall = 7 }) }},
		{"dialed otherwise", func(c *config.Content) {
			putBackend(c, "a", "stt", url, 2, func(b *config.Backend) { b.Headers = map[string]string{"X-Model": "large"} })
		}},
		{"backend removed", func(c *config.Content) { delete(c.Backends, "a") }},
		{"service removed", func(c *config.Content) { delete(c.Backends, "a"); delete(c.Services, "stt") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.apply(func(c *config.Content) {
				putService(c, "stt", probe)
				putBackend(c, "a", "stt", url, 2, func(b *config.Backend) { b.Warm = 0 })
			})
			select {
			case <-asked:
			case <-time.After(wstest.Timeout):
				t.Fatal("the probe never came")
			}
			promptly(t, "Apply", func() { r.apply(c.change) })
			promptly(t, "Ready", func() { _ = r.services.Ready(nil) })
			promptly(t, "Stats", func() { _ = r.stats() })
			if len(r.content.Backends) == 0 {
				wstest.Eventually(t, "the backend is gone", func() bool { s := r.stats(); return len(s.Backends)+len(s.Leaving) == 0 })
			}
		})
	}
}

// Close waits no longer than it may, whatever a change is waiting for.
func TestCloseIsLimited(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	applying, release := make(chan struct{}), make(chan struct{})
	f := newFarm(t, 1, 1, func(o *Options) {
		o.InForce = func(*config.Snapshot, map[string][]string) {
			if calls.Add(1) == 2 { // the server is discovered
				close(applying)
				<-release
			}
		}
	})
	t.Cleanup(func() { close(release) })
	f.resolve(1)
	f.discover(1, nil)
	wstest.Receive(t, applying, "the server is discovered")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.services.Close(ctx)
	}()
	wstest.Receive(t, closed, "Close returns")
}
