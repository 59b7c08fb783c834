package services

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A service's utilisation counts the places of the backends that take sessions, and of all that are enabled if none can.
func TestUtilisation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, dead := startMoody(t), "ws://"+wstest.FreeAddress(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "a", "stt", a.URL, 4, nil)
		putBackend(c, "dead", "stt", dead, 12, nil)
		putBackend(c, "drained", "stt", "ws://"+wstest.FreeAddress(t), 100, func(b *config.Backend) { b.State = "draining" })
	})
	r.idle("a", 4)
	wstest.Eventually(t, "the dead one is out of service", func() bool { return !r.backend("dead").Usable })
	if got := r.stats().Services[0].Utilisation; got != 0 {
		t.Errorf("without sessions: %v", got)
	}
	session := r.join("/stt")
	if got := r.stats().Services[0].Utilisation; got != 0.25 {
		t.Errorf("one of the four places that work is in use: %v", got)
	}
	drop(a, session)
	wstest.Eventually(t, "none works", func() bool { return !r.backend("a").Usable })
	_ = r.waiting("stt")
	wstest.Eventually(t, "one client waits for 16 places", func() bool { return r.stats().Services[0].Utilisation == 1.0/16 })
}

// A service whose clients wait because its backends take no more is fully used, whatever the reason is.
func TestDemand(t *testing.T) {
	t.Parallel()
	s := &Services{ledger: &Ledger{}}
	frozen := &Services{ledger: &Ledger{Trouble: "the database is away"}}
	book := func(change func(*pool.Stats)) pool.Stats {
		b := pool.Stats{Usable: true, Cap: 16, Ceiling: 16, Limit: 16, Leased: 8}
		change(&b)
		return b
	}
	whole := func(*pool.Stats) {}
	down := func(b *pool.Stats) { b.Usable = false }
	fullAt8 := func(b *pool.Stats) { b.Ceiling, b.Limit = 8, 8 }
	granted8 := func(b *pool.Stats) { b.Shared, b.Grant, b.Limit = true, 8, 8 }
	none := func(b *pool.Stats) { b.Shared, b.Grant, b.Limit, b.Leased = true, 0, 0, 0 }
	shared := &api.Places{Cap: 16, Grant: 8, Granted: 12, Others: []api.PlaceHolder{{Places: 4}}}
	for _, test := range []struct {
		what     string
		services *Services
		waiting  int
		books    []func(*pool.Stats)
		places   *api.Places
		others   int
		needs    int
		capacity int
		want     float64
	}{
		{"half is in use", s, 0, []func(*pool.Stats){whole}, nil, 0, 8, 16, 0.5},
		{"resets take places", s, 0, []func(*pool.Stats){func(b *pool.Stats) { b.Resetting = 8 }}, nil, 0, 16, 16, 1},
		{"the server is full at eight", s, 0, []func(*pool.Stats){fullAt8}, nil, 0, 8, 8, 1},
		{"and clients wait", s, 8, []func(*pool.Stats){fullAt8}, nil, 0, 16, 8, 2},
		{"one of two is down", s, 0, []func(*pool.Stats){whole, down}, nil, 0, 16, 16, 1},
		{"both are down", s, 0, []func(*pool.Stats){down, down}, nil, 0, 16, 32, 0.5},
		{"the ledger has places left", s, 2, []func(*pool.Stats){granted8}, shared, 3, 13, 16, 13. / 16},
		{"the server is full, and others use it", s, 0, []func(*pool.Stats){func(b *pool.Stats) { granted8(b); b.Ceiling = 8 }}, shared, 4, 12, 12, 1},
		{"the ledger grants nothing", frozen, 4, []func(*pool.Stats){granted8}, shared, 3, 12, 8, 1.5},
		{"no place is granted, and the ledger grants nothing", frozen, 4, []func(*pool.Stats){none}, shared, 3, 4, 0, 4},
		{"no backend", s, 3, nil, nil, 0, 3, 0, 0},
	} {
		var backends []occupancy
		for _, change := range test.books {
			b := book(change)
			backends = append(backends, test.services.occupancyOf(&b, test.places, test.others))
		}
		demand, got := demandOf(test.waiting, backends)
		if demand.Needs != test.needs || demand.Capacity != test.capacity || got != test.want {
			t.Errorf("%s: %d of %d, %v; want %d of %d, %v", test.what, demand.Needs, demand.Capacity, got, test.needs, test.capacity, test.want)
		}
	}
}
