package services

import (
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// slowServer accepts connections, and answers upgrade requests when the test lets it.
func slowServer(t *testing.T) (url string, answer chan struct{}) {
	t.Helper()
	behind := startServer(t, 100)
	listener := wstest.Listen(t)
	answer = make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-answer:
		case <-req.Context().Done():
			return
		}
		relayTo(w, req, behind.Addr().String())
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "ws://" + listener.Addr().String(), answer
}

// When one backend takes the place of another in one change, the old one stays until the new one has its connections.
func TestReplacementIsWarmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	url, answer := slowServer(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Queue, s.DialTimeout = 0, 2*wstest.Timeout })
		putBackend(c, "a", "stt", a.URL(), 2, nil)
	})
	r.idle("a", 2)
	r.apply(func(c *config.Content) {
		putBackend(c, "b", "stt", url, 2, nil)
		delete(c.Backends, "a")
	})
	old := r.join("/stt") // there is no queue: a must have an idle connection for it
	old.echo("by a")
	if s := r.backend("a"); s.State != "enabled" || s.Leased != 1 {
		t.Errorf("a, while b is not there: %+v", s)
	}
	close(answer)
	r.idle("b", 2)
	wstest.Eventually(t, "a leaves", func() bool { return len(r.stats().Leaving) == 1 && a.Stats().Connections == 1 })
	fresh := r.join("/stt")
	fresh.echo("by b")
	if s := r.backend("b"); s.Leased != 1 {
		t.Errorf("b has no session: %+v", s)
	}
	old.echo("still by a")
	old.leave()
	fresh.leave()
	r.settled()
}

// The same for one that is disabled, and for one that is brought back: by name, by enabling it, or before it has left.
func TestReplacementByState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(*config.Content, string) // how b is out of service at first
		swap   func(*config.Content, string) // what takes a's place
	}{
		{
			"enabled again", func(c *config.Content, url string) {
				putBackend(c, "b", "stt", url, 2, nil)
				setState(c, "b", "disabled")
			},
			func(c *config.Content, _ string) { setState(c, "a", "disabled"); setState(c, "b", "enabled") },
		},
		{
			"added, the other drained", func(*config.Content, string) {},
			func(c *config.Content, url string) {
				setState(c, "a", "draining")
				putBackend(c, "b", "stt", url, 2, nil)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a := startServer(t, 2)
			url, answer := slowServer(t)
			r.apply(func(content *config.Content) {
				putService(content, "stt", func(s *config.Service) { s.Queue, s.DialTimeout = 0, 2*wstest.Timeout })
				putBackend(content, "a", "stt", a.URL(), 2, nil)
				c.before(content, url)
			})
			r.idle("a", 2)
			r.apply(func(content *config.Content) { c.swap(content, url) })
			s := r.join("/stt")
			s.echo("by a")
			close(answer)
			r.idle("b", 2)
			wstest.Eventually(t, "a gets no more", func() bool { return r.backend("a").State != "enabled" })
			s.leave()
			r.settled()
		})
	}
}

// A new backend that is not warm yet is out of service as soon as that is asked for: it replaces none.
func TestNewBackendLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	url, _ := slowServer(t)
	r.serve("a", a.URL(), 2)
	for _, state := range []string{"disabled", "draining", ""} {
		r.apply(func(c *config.Content) { putBackend(c, "b", "stt", url, 2, nil); setState(c, "b", "enabled") })
		r.apply(func(c *config.Content) {
			if setState(c, "b", state); state == "" {
				delete(c.Backends, "b")
			}
		})
		if b := r.backend("b"); b.State != state {
			t.Errorf("b is %q; want %q", b.State, state)
		}
	}
}

// A backend leaves in the end, also if others begin to warm up again and again.
func TestReplacementTakesTooLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	b, _ := slowServer(t)
	c, _ := slowServer(t)
	r.serve("a", a.URL(), 2)
	r.apply(func(content *config.Content) {
		putBackend(content, "b", "stt", b, 2, nil)
		setState(content, "a", "disabled")
	})
	r.apply(func(content *config.Content) { putBackend(content, "c", "stt", c, 2, nil) })
	fresh := r.member("stt", "c")
	r.services.mu.Lock()
	fresh.warming = fresh.warming.Add(replacementTimeout / 2) // as if it was added only now
	r.services.reconcile(time.Now().Add(replacementTimeout / 2))
	early := r.services.services["stt"].members["a"].mode
	r.services.reconcile(time.Now().Add(replacementTimeout))
	late := r.services.services["stt"].members["a"].mode
	r.services.unlock()
	if early != pool.Enabled || late != pool.Disabled {
		t.Errorf("a is %v, then %v", early, late)
	}
}

// Going back to the backend that was before, while its last session still runs, waits for its connections as well.
func TestGoingBackIsWarmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url, answer := slowServer(t)
	b := startServer(t, 2)
	close(answer)
	swap := func(name, from string, url string) {
		r.apply(func(c *config.Content) {
			putService(c, "stt", func(s *config.Service) { s.Queue = 0 })
			delete(c.Backends, from)
			putBackend(c, name, "stt", url, 2, nil)
		})
	}
	swap("a", "", url)
	r.idle("a", 2)
	session := r.join("/stt")
	swap("b", "a", b.URL())
	wstest.Eventually(t, "a leaves", func() bool { s := r.stats(); return len(s.Leaving) == 1 && s.Leaving[0].Retiring == 0 })
	swap("a", "b", url)
	fresh := r.join("/stt") // there is no queue: a backend must have an idle connection
	fresh.echo("by whomever")
	session.echo("all the time")
	session.leave()
	fresh.leave()
	r.settled()
}
