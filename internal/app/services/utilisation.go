package services

import (
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// occupancy is how much of a backend is in use. Backends that are to get no sessions, by their state or weight, have none.
type occupancy struct {
	cap    int
	usable bool // sessions may begin
	// places is how many sessions of all proxies the backend takes now, if it is usable: its cap, or less while the server says that it is full, or
	// while this proxy has fewer places and the ledger grants none.
	places int
	needs  int // places that sessions use, resets included; of other proxies also those that clients wait for
}

// demandOf adds up the places that a service's clients need and those that its backends have now: the one place where utilisation is worked out. The API
// carries it to metrics, dashboard, top, status and lists. waiting is how many clients wait at this proxy.
//
// While no backend is usable, the caps of all count: they show at least how many clients need them.
func demandOf(waiting int, backends []occupancy) (demand api.ServiceDemand, utilisation float64) {
	demand.Needs = waiting
	caps, usable := 0, false
	for i := range backends {
		b := &backends[i]
		demand.Needs += b.needs
		caps += b.cap
		if b.usable {
			demand.Capacity += b.places
			usable = true
		}
	}
	if !usable {
		demand.Capacity = caps
	}
	if demand.Needs > 0 && caps > 0 {
		utilisation = float64(demand.Needs) / float64(max(1, demand.Capacity))
	}
	return demand, utilisation
}

// occupancyOf returns how much of a backend is in use. places is how the fleet shares the server, nil if it does not, and othersNeed what the
// other proxies need there. It is called with Services.mu held.
func (s *Services) occupancyOf(book *pool.Stats, places *api.Places, othersNeed int) occupancy {
	o := occupancy{cap: book.Cap, usable: book.Usable, places: book.Limit, needs: book.Leased + book.Resetting}
	if places == nil || s.ledger == nil || s.ledger.Trouble != "" { // then no place moves between proxies
		return o
	}
	o.needs += othersNeed
	o.places = places.Cap
	if book.Ceiling < book.Cap { // the server refuses more of this proxy; the others' are beside them
		o.places = book.Ceiling
		for _, other := range places.Others {
			o.places += other.Places
		}
		o.places = min(o.places, places.Cap)
	}
	return o
}
