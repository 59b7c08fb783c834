package services

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// Clients get the service of their host and path; what changes is in force at once.
func TestRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	servers := map[string]string{}
	for _, name := range []string{"stt", "tenant", "rest"} {
		servers[name] = startServer(t, 2).URL()
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putService(c, "tenant", func(s *config.Service) { s.Host, s.Path = "tenant.example", "/stt" })
		for _, name := range []string{"stt", "tenant"} {
			putBackend(c, name, name, servers[name], 2, nil)
		}
	})
	r.idle("stt", 2)
	r.idle("tenant", 2)
	// by returns which backend serves a session, or the status.
	expect := func(path, host, service string, status int) {
		t.Helper()
		c, got := r.ask(path, host)
		if got != status {
			t.Fatalf("%s at %s: status %d; want %d", path, host, got, status)
		}
		if c == nil {
			return
		}
		if b := r.backend(service); b.Leased != 1 {
			t.Errorf("%s at %s is not served by %s", path, host, service)
		}
		c.leave()
		r.idle(service, 2)
	}
	expect("/stt", "", "stt", 101)
	expect("/stt", "tenant.example", "tenant", 101)
	expect("/stt", "TENANT.example.:443", "tenant", 101)
	expect("/other", "tenant.example", "", http.StatusNotFound)
	expect("/other", "", "", http.StatusNotFound)

	session := r.join("/stt")
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Path = "/v2/stt" })
		putService(c, "rest", func(s *config.Service) { s.Path = "" })
		putBackend(c, "rest", "rest", servers["rest"], 2, nil)
	})
	r.idle("rest", 2)
	session.echo("on the old path")
	session.leave()
	r.idle("stt", 2)
	expect("/v2/stt", "", "stt", 101)
	expect("/stt", "", "rest", 101)
	expect("/", "", "rest", 101)
	expect("/stt", "tenant.example", "tenant", 101)
	if n := r.services.Dialed(); n != 6 {
		t.Errorf("%d connections were dialed; a change of paths needs none more than 6", n)
	}
}

// What a service says of clients that come back reaches sessions and the statistics, and a change dials nobody.
func TestReconnectOfService(t *testing.T) {
	t.Parallel()
	var routes []*route.Service
	r := newLoggedRig(t, slog.DiscardHandler, func(o *Options) {
		set := o.SetRoutes
		o.SetRoutes = func(all []*route.Service) {
			routes = all
			set(all)
		}
	})
	r.serve("a", startServer(t, 1).URL(), 1)
	former := routes[0]
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Reconnect, s.ReconnectEvict = 30*time.Second, true })
	})
	if s := routes[0]; s.Reconnect != 30*time.Second || !s.ReconnectEvict {
		t.Errorf("sessions wait for %v, and end for others: %t; want 30s, true", s.Reconnect, s.ReconnectEvict)
	}
	if former.Reconnect != 0 || former.ReconnectEvict || former.HadReconnect {
		t.Error("sessions that began before the change wait for their clients")
	}
	var stats api.Stats
	if r.services.Stats(&stats); stats.Services[0].ReconnectSeconds != 30 {
		t.Errorf("the statistics say %v; want 30", stats.Services[0].ReconnectSeconds)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Reconnect, s.ReconnectEvict = 0, false })
	})
	if s := routes[0]; s.Reconnect != 0 || !s.HadReconnect {
		t.Errorf("sessions wait for %v; clients of former ones may come back: %t; want 0s, true", s.Reconnect, s.HadReconnect)
	}
	if n := r.services.Dialed(); n != 1 {
		t.Errorf("%d connections were dialed; want 1", n)
	}
}

// A service that is removed turns those away who wait, and refuses others; its sessions continue to their end.
func TestServiceRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 1)
	r.serve("a", a.URL(), 1)
	session := r.join("/stt")
	first, second := r.waiting("stt"), r.waiting("stt")
	r.apply(func(c *config.Content) {
		delete(c.Services, "stt")
		delete(c.Backends, "a")
	})
	for _, answer := range []<-chan int{first, second} {
		if status := <-answer; status != http.StatusNotFound {
			t.Errorf("a client that waited got %d; want 404", status)
		}
	}
	if _, status := r.ask("/stt", ""); status != http.StatusNotFound {
		t.Errorf("a client got %d; want 404", status)
	}
	session.echo("to its end")

	// It comes back, as another service with another queue, while the session still has the only connection.
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 1, nil)
	})
	answer := r.waiting("stt")
	session.echo("still")
	session.leave()
	if status := <-answer; status != http.StatusSwitchingProtocols {
		t.Errorf("the client that waited got %d; want 101", status)
	}
	r.settled()
	r.idle("a", 1)
}

// A service without backends makes clients wait until it gets one.
func TestServiceWithoutBackends(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 1)
	r.apply(func(c *config.Content) { putService(c, "stt", nil) })
	if err := r.services.Ready(nil); err != nil {
		t.Errorf("not ready: %v", err)
	}
	answer := r.waiting("stt")
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL(), 1, nil) })
	if status := <-answer; status != http.StatusSwitchingProtocols {
		t.Errorf("the client that waited got %d; want 101", status)
	}
	r.settled()
}
