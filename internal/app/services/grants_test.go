package services

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// newFleetRig is newRig for a proxy that shares servers with others. asked counts the calls of Options.Demand.
func newFleetRig(t testing.TB) (r *rig, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	r = newLoggedRig(t, slog.DiscardHandler, func(o *Options) {
		o.Fleet, o.Demand = true, func() { asked.Add(1) }
	})
	return r, asked
}

// grant gives the proxy a number of places of a server.
func (r *rig) grant(url string, places int) {
	r.services.SetGrants(map[string]int{config.ServerOf(url): places})
}

// usage returns how the pools use a server.
func (r *rig) usage(url string) fleet.Usage { return r.services.Usage()[config.ServerOf(url)] }

// Nothing is dialed without a grant. A client waits until there is one, and connections close when places go elsewhere, however many are to
// be kept warm.
func TestGrants(t *testing.T) {
	t.Parallel()
	r, asked := newFleetRig(t)
	a := startServer(t, 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 4, nil)
	})
	if u := r.usage(a.URL()); u != (fleet.Usage{Cap: 4, Wants: 4}) {
		t.Errorf("without a grant the usage is %+v", u)
	}
	joined := make(chan *client)
	go func() { joined <- r.join("/stt") }()
	wstest.Eventually(t, "a client waits", func() bool { return r.usage(a.URL()).Waiting == 1 && asked.Load() == 1 })
	if u := r.usage(a.URL()); u != (fleet.Usage{Cap: 4, Needs: 1, Waiting: 1, Wants: 4}) {
		t.Errorf("while a client waits the usage is %+v", u)
	}
	r.grant(a.URL(), 3)
	first := <-joined
	first.echo("served")
	wstest.Eventually(t, "the other places are warm", func() bool { return a.Stats().Connections == 3 })
	if u := r.usage(a.URL()); u != (fleet.Usage{Cap: 4, Used: 3, Needs: 1, Wants: 4}) {
		t.Errorf("with three places the usage is %+v", u)
	}
	asked.Store(0)
	r.grant(a.URL(), 1)
	wstest.Eventually(t, "idle connections beyond the grant close", func() bool { return r.usage(a.URL()).Used == 1 })
	if asked.Load() == 0 {
		t.Error("it was not reported that places can be given back")
	}
	r.grant(a.URL(), 0)
	first.echo("it continues")
	first.leave()
	wstest.Eventually(t, "the session's connection closes with it", func() bool { return r.usage(a.URL()).Used == 0 })
	r.services.SetGrants(nil)
	r.idle("a", 4)
}

// A proxy that ends wants no place beyond those of its sessions, and servers that get no sessions are kept no places for.
func TestUsageOfWhatEnds(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a := startServer(t, 3)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 3, nil)
	})
	r.grant(a.URL(), 3)
	r.idle("a", 3)
	session := r.join("/stt")
	r.apply(func(c *config.Content) { setState(c, "a", "draining") })
	if u := r.usage(a.URL()); u.Used != 3 || u.Needs != 1 || u.Wants != 1 {
		t.Errorf("while it drains the usage is %+v", u)
	}
	r.apply(func(c *config.Content) { setState(c, "a", "enabled") })
	r.services.Release()
	wstest.Eventually(t, "only the session's place is used", func() bool {
		return r.usage(a.URL()) == fleet.Usage{Cap: 3, Used: 1, Needs: 1, Wants: 1}
	})
	r.apply(func(c *config.Content) { delete(c.Backends, "a") })
	if u := r.usage(a.URL()); u != (fleet.Usage{Cap: 3, Used: 1, Needs: 1, Wants: 1}) {
		t.Errorf("after it was removed the usage is %+v", u)
	}
	session.leave()
	wstest.Eventually(t, "nothing is used", func() bool { return len(r.services.Usage()) == 0 })
}

// A proxy whose sessions may move keeps places for them at the other servers, also while it drains.
func TestUsageForFailover(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a, b := startServer(t, 4), startServer(t, 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Failover = "replay" })
		putBackend(c, "a", "stt", a.URL(), 4, nil)
		putBackend(c, "b", "stt", b.URL(), 4, func(b *config.Backend) { b.Warm = 0 })
	})
	r.services.SetGrants(map[string]int{config.ServerOf(a.URL()): 2, config.ServerOf(b.URL()): 0})
	r.idle("a", 2)
	r.join("/stt")
	r.join("/stt")
	if u := r.usage(b.URL()); u.Needs != 0 || u.Wants != 2 {
		t.Errorf("the other server's usage is %+v", u)
	}
	r.services.Release()
	if u := r.usage(b.URL()); u.Needs != 0 || u.Wants != 2 {
		t.Errorf("while the proxy drains, the other server's usage is %+v", u)
	}
	if u := r.usage(a.URL()); u.Needs != 2 || u.Wants != 2 {
		t.Errorf("while the proxy drains, the server's usage is %+v", u)
	}
}

// TestGrantsHoldWhateverChanges changes grants and the configuration at random while sessions come and go. What is used of a server never
// exceeds the highest of its grants since it last rose above use, no session is cut, and in the end each pool has what it is granted.
func TestGrantsHoldWhateverChanges(t *testing.T) {
	t.Parallel()
	const most, steps = 4, 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r, _ := newFleetRig(t)
	servers := []*sim.Server{startServer(t, most), startServer(t, most), startServer(t, most)}
	r.apply(func(c *config.Content) {
		for _, name := range []string{"stt", "mt"} {
			putService(c, name, func(s *config.Service) { s.Queue = 0 })
		}
	})
	grants, bounds := make(map[string]int), make(map[string]int)
	var sessions []*client
	for step := range steps {
		what := "grants"
		if random.IntN(3) == 0 {
			r.apply(func(c *config.Content) { what = mutate(random, c, servers, most) })
		} else {
			for _, s := range servers {
				grants[config.ServerOf(s.URL())] = random.IntN(most + 1)
			}
			for server, n := range grants {
				bounds[server] = max(bounds[server], n) // before it is in force
			}
			r.services.SetGrants(grants)
		}
		for server, u := range r.services.Usage() {
			if u.Used > bounds[server] {
				t.Fatalf("step %d: %d connections of %s are used; at most %d may be: %s", step, u.Used, server, bounds[server], what)
			}
			bounds[server] = max(grants[server], u.Used)
		}
		for _, name := range []string{"stt", "mt"} {
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
	}
	for _, s := range sessions {
		s.leave()
	}
	for _, s := range servers {
		grants[config.ServerOf(s.URL())] = most
	}
	r.services.SetGrants(grants)
	r.settled()
}
