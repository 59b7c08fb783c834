package pool

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// comeFor queues a client of a tenant that must find nothing.
func (r *rig) comeFor(tenant string) *Waiter[int] {
	r.t.Helper()
	w := &Waiter[int]{Tenant: tenant}
	if n, ok, err := r.Acquire(w); ok || err != nil {
		r.t.Fatalf("Acquire for %s: connection %d, %v, %v; want to wait", tenant, n, ok, err)
	}
	return w
}

// leaseFor leases a connection that must be there.
func (r *rig) leaseFor(tenant string) *Slot[int] {
	r.t.Helper()
	n, ok, err := r.Acquire(&Waiter[int]{Tenant: tenant})
	if !ok || err != nil {
		r.t.Fatalf("Acquire for %s: %v, %v; want a connection", tenant, ok, err)
	}
	return r.slots[n]
}

func (r *rig) tenantStats(name string) TenantStats {
	all, _ := r.Tenants()
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return TenantStats{}
}

// crowd is tenants that always have a number of clients waiting, whose sessions last as long as drawn.
type crowd struct {
	*rig
	waiting  map[string][]*Waiter[int]
	backlog  map[string]int
	lasts    map[string]int     // the mean length of a session in steps
	ends     map[*Slot[int]]int // when the session on it does
	of       map[*Slot[int]]string
	time     int
	sessions map[string]int // begun
	places   map[string]int // the sum of places that were used at each step
}

func newCrowd(r *rig, backlog, lasts map[string]int) *crowd {
	return &crowd{
		rig: r, backlog: backlog, lasts: lasts, waiting: make(map[string][]*Waiter[int]), ends: make(map[*Slot[int]]int),
		of: make(map[*Slot[int]]string), sessions: make(map[string]int), places: make(map[string]int),
	}
}

func (c *crowd) begin(tenant string, s *Slot[int]) {
	c.sessions[tenant]++
	c.of[s] = tenant
	c.ends[s] = c.time + 1 + rand.IntN(2*c.lasts[tenant])
}

// step lets clients come, and then a step of time pass.
func (c *crowd) step() {
	names := slices.Sorted(maps.Keys(c.backlog))
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, tenant := range names {
		for len(c.waiting[tenant]) < c.backlog[tenant] {
			w := &Waiter[int]{Tenant: tenant}
			switch n, ok, err := c.Acquire(w); {
			case err != nil:
				c.t.Fatal(err)
			case ok:
				c.begin(tenant, c.slots[n])
			default:
				c.waiting[tenant] = append(c.waiting[tenant], w)
			}
		}
	}
	c.time++
	for s, end := range c.ends {
		if end <= c.time {
			delete(c.ends, s)
			delete(c.of, s)
			giveBack(s)
			c.take()
		}
	}
	for _, tenant := range c.of {
		c.places[tenant]++
	}
}

// take lets the clients take what they were handed: the first ones of each tenant, and no others.
func (c *crowd) take() {
	c.t.Helper()
	for tenant, clients := range c.waiting {
		for len(clients) > 0 && len(clients[0].ready) > 0 {
			c.begin(tenant, c.slots[<-clients[0].ready])
			clients = clients[1:]
		}
		for _, w := range clients {
			if len(w.ready) > 0 {
				c.t.Fatalf("a client of %s was served before one that came earlier", tenant)
			}
		}
		c.waiting[tenant] = clients
	}
}

func (c *crowd) run(steps int) {
	c.t.Helper()
	clear(c.places)
	clear(c.sessions)
	for range steps {
		c.step()
	}
	for tenant := range c.places {
		c.places[tenant] = int(math.Round(float64(c.places[tenant]) / float64(steps)))
	}
}

// Three tenants with shares 1, 1 and 2 get places in proportion, however many clients each sends, and however long their sessions last.
// What one does not need, the others get by their shares.
func TestPlacesByShare(t *testing.T) {
	t.Parallel()
	for name, lasts := range map[string]map[string]int{
		"equal":    {"a": 20, "b": 20, "c": 20},
		"a long":   {"a": 200, "b": 10, "c": 10},
		"c longer": {"a": 5, "b": 10, "c": 100},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Queue: 2000}, capped(20), capped(20))
			for _, p := range r.pools {
				p.fill(20)
			}
			r.SetTenants(&TenantSettings{Shares: map[string]float64{"a": 1, "b": 1, "c": 2}})
			c := newCrowd(r, map[string]int{"a": 900, "b": 12, "c": 50}, lasts)
			near := func(what string, want map[string]int) {
				t.Helper()
				for tenant, n := range want {
					if got := c.places[tenant]; got < n-1 || got > n+1 {
						t.Errorf("%s: %s has %d places; want %d", what, tenant, got, n)
					}
				}
			}
			c.run(600) // until the first sessions, which came before the others, have ended
			c.run(600)
			near("all want more", map[string]int{"a": 10, "b": 10, "c": 20})
			// c's clients stay away: the others share its places.
			c.backlog = map[string]int{"a": 900, "b": 12, "c": 0}
			for _, w := range c.waiting["c"] {
				r.Leave(w, LeftEarly)
			}
			c.waiting["c"] = nil
			c.run(600)
			c.run(400)
			near("c wants nothing", map[string]int{"a": 20, "b": 20, "c": 0})
			// c comes back, and has its places when sessions of the others have ended.
			c.backlog["c"] = 50
			c.run(600)
			c.run(600)
			near("c is back", map[string]int{"a": 10, "b": 10, "c": 20})
		})
	}
}

// When a tenant's share is less than one place, it is served as often as its share says.
func TestShareBelowOnePlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Queue: 5000}, capped(10))
	r.pools[0].fill(10)
	settings := &TenantSettings{Shares: map[string]float64{"large": 5}}
	backlog, lasts := map[string]int{"large": 40}, map[string]int{"large": 10}
	for i := range 95 {
		name := fmt.Sprint("small-", i)
		backlog[name], lasts[name] = 2+rand.IntN(3), 10
	}
	r.SetTenants(settings)
	c := newCrowd(r, backlog, lasts)
	c.run(500)
	c.run(8000)
	total := 0
	for _, n := range c.sessions {
		total += n
	}
	for tenant, n := range c.sessions {
		want := float64(total) / 100
		if tenant == "large" {
			want *= 5
		}
		if float64(n) < 0.8*want || float64(n) > 1.2*want {
			t.Errorf("%s had %d sessions of %d; want some %.0f", tenant, n, total, want)
		}
	}
	if len(c.sessions) != 96 {
		t.Errorf("%d tenants were served; want 96", len(c.sessions))
	}
}

// A tiny share is served in the end.
func TestTinyShareIsServed(t *testing.T) {
	r := newRig(t, Options{Queue: 100}, capped(4))
	sessions := r.pools[0].lease(4)
	r.SetTenants(&TenantSettings{Shares: map[string]float64{"tiny": 0.02}})
	var big []*Waiter[int]
	more := func() { big = append(big, r.comeFor("big")) }
	for range 10 {
		more()
	}
	tiny := r.comeFor("tiny")
	for served := range 60 {
		giveBack(sessions[0])
		if len(tiny.ready) > 0 {
			if served < 40 {
				t.Errorf("served after %d others", served)
			}
			return
		}
		r.handed(big[0])
		big = big[1:]
		more()
	}
	t.Error("not served after 60 others")
}

// The place of a tenant that floods the queue goes to tenants with fewer clients in it, the last come first; and no tenant can take it
// back by sending more.
func TestFullQueueIsShared(t *testing.T) {
	r := newRig(t, Options{Queue: 6}, capped(1))
	session := r.pools[0].lease(1)[0]
	var flood []*Waiter[int]
	for range 6 {
		flood = append(flood, r.comeFor("flood"))
	}
	full := func(tenant string) {
		t.Helper()
		if _, ok, err := r.Acquire(&Waiter[int]{Tenant: tenant}); ok || !errors.Is(err, ErrQueueFull) {
			t.Errorf("%s: %v, %v; want the queue to be full", tenant, ok, err)
		}
	}
	evicted := func(w *Waiter[int]) {
		t.Helper()
		select {
		case _, ok := <-w.Ready():
			if ok || !errors.Is(w.Refused(), ErrEvicted) {
				t.Errorf("%v, %v", ok, w.Refused())
			}
		default:
			t.Error("a client kept its place")
		}
	}
	full("flood")
	small := []*Waiter[int]{r.comeFor("small"), r.comeFor("small"), r.comeFor("small")}
	for _, w := range flood[3:] {
		evicted(w)
	}
	full("small") // three each
	full("flood")
	r.comeFor("third")
	evicted(small[2]) // the last that came of those with most
	full("flood")
	s := r.Queue()
	if s.Waiting != 6 || s.Totals.Evicted != 4 || s.Totals.Full != 4 || s.Totals.Queued != 10 {
		t.Errorf("queue: %+v", s)
	}
	if got := r.tenantStats("flood"); got.Waiting != 3 || got.Totals.Evicted != 3 || got.Totals.Full != 3 {
		t.Errorf("flood: %+v", got)
	}
	giveBack(session)
	if w := flood[0]; len(w.ready) != 1 {
		t.Error("of three with nothing in use, the one that came first was not served")
	}
}

// A running session that needs another connection does not lose its place.
func TestRunningSessionKeepsItsPlace(t *testing.T) {
	r := newRig(t, Options{Queue: 2}, capped(1))
	r.pools[0].lease(1)
	first := r.comeFor("a")
	moving := &Waiter[int]{Tenant: "a", Begun: true}
	if _, _, err := r.Acquire(moving); err != nil {
		t.Fatal(err)
	}
	r.comeFor("b")
	if first.Refused() == nil || moving.Refused() != nil {
		t.Errorf("first: %v, moving: %v", first.Refused(), moving.Refused())
	}
}

// Guaranteed places stay free for their tenant while others wait, and it gets them at once, also when the queue is full.
func TestGuaranteedPlaces(t *testing.T) {
	r := newRig(t, Options{Queue: 2}, capped(4))
	p := r.pools[0]
	p.fill(4)
	r.SetTenants(&TenantSettings{Guaranteed: map[string]int{"gold": 2}})
	others := []*Slot[int]{r.leaseFor("other"), r.leaseFor("")}
	waiting := []*Waiter[int]{r.comeFor("other"), r.comeFor("")}
	p.expect(0, 2, 2, 0, 0)
	if _, _, err := r.Acquire(&Waiter[int]{Tenant: "other"}); !errors.Is(err, ErrGuaranteed) {
		t.Errorf("a client too many: %v", err)
	}
	gold := r.leaseFor("gold")
	r.leaseFor("gold")
	p.expect(0, 0, 4, 0, 0)
	r.waiting(waiting...)
	giveBack(gold) // it is free, and kept for no other tenant
	r.waiting(waiting...)
	giveBack(others[0])
	r.handed(waiting[0])
	r.waiting(waiting[1])
	if got, want := r.tenantStats("gold"), (TenantStats{Name: "gold", Share: 1, Guaranteed: 2, Promised: 2, InUse: 1, Totals: TenantTotals{Leased: 2}}); got != want {
		t.Errorf("gold: %+v; want %+v", got, want)
	}
	// Without the guarantee, the others get the rest at once.
	r.SetTenants(&TenantSettings{})
	r.handed(waiting[1])
	p.expect(0, 0, 4, 0, 0)
}

// When backends are lost, guarantees shrink with the room; when they are back, so are the guarantees.
func TestGuaranteesShrinkWithTheRoom(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(10), capped(10))
	r.SetTenants(&TenantSettings{Guaranteed: map[string]int{"a": 12, "b": 3}})
	expect := func(when string, a, b int) {
		t.Helper()
		if gotA, gotB := r.tenantStats("a").Guaranteed, r.tenantStats("b").Guaranteed; gotA != a || gotB != b {
			t.Errorf("%s: %d, %d; want %d, %d", when, gotA, gotB, a, b)
		}
	}
	expect("all is well", 12, 3)
	r.pools[0].SetUsable(false)
	expect("a backend is out of service", 8, 2)
	r.pools[1].SetCeiling(4)
	expect("the other is full", 3, 0)
	r.pools[1].SetMode(Draining)
	expect("it is drained", 0, 0)
	r.pools[1].SetMode(Enabled)
	r.pools[1].SetCeiling(0)
	r.pools[0].SetUsable(true)
	expect("all is well again", 12, 3)
	r.Remove(r.pools[0].Pool)
	expect("a backend was removed", 8, 2)
	r.SetTenants(&TenantSettings{Guaranteed: map[string]int{"b": 3}})
	expect("a's guarantee was taken back", 0, 3)
}

// The group remembers no tenant that has neither sessions nor waiting clients, unless it is configured; and counts what they did.
func TestTenantsAreForgotten(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1))
	s := r.pools[0].connect()
	r.SetTenants(&TenantSettings{Shares: map[string]float64{"known": 3}})
	for i := range 100 {
		r.leaseFor(fmt.Sprint("stranger-", i))
		giveBack(s)
	}
	r.leaseFor("known")
	w := r.comeFor("waits until it leaves")
	r.Leave(w, TimedOut)
	giveBack(s)
	all, forgotten := r.Tenants()
	if len(all) != 1 || all[0] != (TenantStats{Name: "known", Share: 3, Totals: TenantTotals{Leased: 1}}) {
		t.Errorf("%+v", all)
	}
	if want := (TenantTotals{Leased: 100, Queued: 1, TimedOut: 1}); forgotten != want {
		t.Errorf("%+v; want %+v", forgotten, want)
	}
}

// A tenant that is not configured counts on when it comes again, and however many there were, nothing is lost or counted twice.
func TestCountersOfTenantsThatReturn(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1))
	s := r.pools[0].connect()
	for round := range uint64(4) {
		r.leaseFor("returns")
		all, forgotten := r.Tenants()
		if len(all) != 1 || all[0].Totals.Leased != round+1 || forgotten.Leased != 100*round {
			t.Errorf("round %d: %+v, others %+v", round, all, forgotten)
		}
		giveBack(s)
		for i := range 100 {
			r.leaseFor(fmt.Sprint("stranger-", round, "-", i))
			giveBack(s)
		}
	}
	for i := range 5 * maxDeparted {
		r.leaseFor(fmt.Sprint("crowd-", i))
		giveBack(s)
	}
	before := r.departed.sum()
	r.SetTenants(&TenantSettings{Shares: map[string]float64{"crowd-2499": 2, "crowd-1999": 1, "new": 1}})
	if all, forgotten := r.Tenants(); len(all) != 2 || all[0].Totals.Leased != 1 || all[1].Totals.Leased != 1 || forgotten.Leased != before.Leased-2 {
		t.Errorf("two are configured, and have what they counted before: %+v, others %+v", all, forgotten)
	}
	if n := len(r.departed.young) + len(r.departed.old); n > 2*maxDeparted {
		t.Errorf("%d tenants are remembered", n)
	}
	if _, forgotten := r.Tenants(); forgotten.Leased != 402+5*maxDeparted {
		t.Errorf("%+v", forgotten)
	}
}
