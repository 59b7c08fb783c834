package services

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A server that moves to another service never sees more connections than its cap, there and back again.
func TestMoveBetweenServices(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 3)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putService(c, "mt", nil)
		putBackend(c, "a", "stt", a.URL(), 3, nil)
	})
	r.idle("a", 3)
	first := r.join("/stt")
	move := func(service string) {
		r.apply(func(c *config.Content) { putBackend(c, "a", service, a.URL(), 3, nil) })
		first.echo("at " + service)
		wstest.Eventually(t, "what the session leaves of the cap is idle", func() bool {
			s := r.backend("a")
			return s.Service == service && s.Idle+s.Leased == 3-leaving(r)
		})
	}
	move("mt")
	second := r.join("/mt")
	for range 5 {
		move("stt")
		move("mt")
		second.echo("still there")
	}
	first.leave()
	second.leave()
	r.settled()
	r.idle("a", 3)
}

// leaving returns how many connections those hold that are leaving.
func leaving(r *rig) (n int) {
	for _, l := range r.stats().Leaving {
		n += l.Leased + l.Resetting + l.Retiring
	}
	return n
}

// A server that sessions of another service fill is no reason not to be ready: it is in use.
func TestReadyWhileFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 1)
	r.serve("a", a.URL(), 1)
	session := r.join("/stt")
	r.apply(func(c *config.Content) {
		putService(c, "mt", nil)
		putBackend(c, "a", "mt", a.URL(), 1, nil)
	})
	if err := r.services.Ready(nil); err != nil {
		t.Error(err)
	}
	session.leave()
	r.settled()
	r.idle("a", 1)
}

// A backend whose cap is lowered while it is in use, and that then moves, still has what it has.
func TestMoveAfterShrinking(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 3)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putService(c, "mt", nil)
		putBackend(c, "a", "stt", a.URL(), 3, nil)
	})
	r.idle("a", 3)
	sessions := []*client{r.join("/stt"), r.join("/stt"), r.join("/stt")}
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL(), 1, nil) })
	r.apply(func(c *config.Content) { putBackend(c, "b", "mt", a.URL(), 2, nil); delete(c.Backends, "a") })
	for i, s := range sessions {
		if b := r.backend("b"); i == 0 && b.Dialing+b.Idle != 0 {
			t.Errorf("b has %+v while the server is full", b.Pool)
		}
		s.echo("1")
		s.leave()
	}
	r.settled()
	r.idle("b", 2)
}

// TestCapsHoldWhateverChanges changes everything at random while sessions come and go. No server ever sees more connections than
// it takes, no session is cut, and in the end what runs is what the configuration says.
func TestCapsHoldWhateverChanges(t *testing.T) {
	t.Parallel()
	const most, steps = 4, 120
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t)
	servers := []*sim.Server{startServer(t, most), startServer(t, most), startServer(t, most)}
	names := []string{"stt", "mt"}
	r.apply(func(c *config.Content) {
		for _, name := range names {
			putService(c, name, func(s *config.Service) { s.Queue = 0 })
		}
	})
	var sessions []*client
	for step := range steps {
		what := ""
		r.apply(func(c *config.Content) { what = mutate(random, c, servers, most) })
		for _, name := range names {
			if _, ok := c(r, name); ok && random.IntN(2) == 0 {
				if s, _ := r.ask("/"+name, ""); s != nil {
					sessions = append(sessions, s)
				}
			}
		}
		for i, s := range slices.Backward(sessions) {
			if s.echo(fmt.Sprint(step)); random.IntN(6) == 0 {
				s.leave()
				sessions = slices.Delete(sessions, i, i+1)
			}
		}
		if t.Failed() {
			t.Fatalf("step %d: %s", step, what)
		}
	}
	for _, s := range sessions {
		s.leave()
	}
	r.settled()
	ran := make(map[string]string)
	for _, b := range r.stats().Backends {
		ran[b.Name] = fmt.Sprint(b.Service, b.URL, b.Cap, b.State)
	}
	want := make(map[string]string)
	for name, b := range r.content.Backends {
		want[name] = fmt.Sprint(b.Service, b.URL, b.Connections, b.State)
	}
	if !maps.Equal(ran, want) {
		t.Errorf("there are %v; want %v", ran, want)
	}
}

func c(r *rig, service string) (config.Service, bool) {
	s, ok := r.content.Services[service]
	return s, ok
}

// mutate makes one or two random changes of backends, and returns what they are.
func mutate(random *rand.Rand, c *config.Content, servers []*sim.Server, most int) (what string) {
	names, states := []string{"a", "b", "c", "d"}, []string{"enabled", "enabled", "draining", "disabled"}
	for range 1 + random.IntN(2) {
		url := servers[random.IntN(len(servers))].URL()
		name, at := names[random.IntN(len(names))], ""
		for other, b := range c.Backends {
			if b.URL == url {
				at = other
			}
		}
		service, connections := []string{"stt", "mt"}[random.IntN(2)], 1+random.IntN(most)
		switch kind := random.IntN(6); {
		case at == "": // it replaces whatever has the name
			delete(c.Backends, name)
			putBackend(c, name, service, url, connections, nil)
		case kind == 0:
			delete(c.Backends, at)
		case kind == 1: // another name, service and size at once
			delete(c.Backends, at)
			delete(c.Backends, name)
			putBackend(c, name, service, url, connections, nil)
		case kind == 2:
			putBackend(c, at, service, url, c.Backends[at].Connections, nil)
		case kind == 3:
			putBackend(c, at, c.Backends[at].Service, url, connections, nil)
		case kind == 4:
			setState(c, at, states[random.IntN(len(states))])
		default: // the whole service goes, and comes back as another
			saved := c.Services[service]
			saved.MaxMessage++
			c.Services[service] = saved
		}
		what += fmt.Sprintf("%s at %s: %+v; ", name, at, c.Backends)
	}
	return what
}
