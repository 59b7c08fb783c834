package pool

import (
	"maps"
	"math/bits"
)

// TenantSettings say how the tenants of a group share its connections. A tenant is a customer, a department or anything else with
// many clients; the pool knows just its name. They may be shared by groups, and are no longer changed.
type TenantSettings struct {
	// Shares are the shares of tenants by name, each above 0.
	Shares map[string]float64
	// OtherShare is the share of each tenant that Shares does not name, and of the clients without a tenant together; 0 is for 1.
	OtherShare float64
	// Guaranteed is how many of the group's places only a tenant may use. See scaleGuarantees for the case that they are more than
	// there are.
	Guaranteed map[string]int
}

// share returns the share of a tenant.
func (s *TenantSettings) share(name string) float64 {
	if share := s.Shares[name]; share > 0 {
		return share
	}
	if s.OtherShare > 0 {
		return s.OtherShare
	}
	return 1
}

// keeps reports whether the state of a tenant is kept although it has neither sessions nor waiting clients: for the counters
// of those that are configured, of which there are few.
func (s *TenantSettings) keeps(name string) bool {
	_, named := s.Shares[name]
	return named || name == "" || s.Guaranteed[name] > 0
}

// TenantTotals counts the clients of a tenant since the group was made. A tenant that is not configured may be counted anew after it had no client
// while maxDeparted others came and went.
type TenantTotals struct {
	Leased   uint64 // leases begun
	Queued   uint64 // clients that had to wait
	TimedOut uint64 // clients that waited without success
	Full     uint64 // clients that could not be queued
	Evicted  uint64 // clients that lost their place in the full queue, see queue.makeRoom
}

func (t *TenantTotals) add(other *TenantTotals) {
	t.Leased += other.Leased
	t.Queued += other.Queued
	t.TimedOut += other.TimedOut
	t.Full += other.Full
	t.Evicted += other.Evicted
}

// TenantStats is a tenant of a group at one instant.
type TenantStats struct {
	Name  string // empty for the clients without a tenant
	Share float64
	// Guaranteed is how many places only this tenant may use, and Promised how many the settings name: more than Guaranteed while the
	// group has less room than all promises need.
	Guaranteed, Promised int
	InUse                int // connections that its sessions use, resets included
	Waiting              int
	Totals               TenantTotals
}

// tenant is what a group knows of a tenant that is configured, has sessions, or has clients that wait. All of it is guarded by the
// group's mutex.
type tenant[C any] struct {
	name string
	standing
	turn     float64 // 1 / share: the virtual time in which one of its clients is due
	promised int
	ahead    int // clients in queue.ahead
	totals   TenantTotals

	// While clients of the tenant wait.
	waiting     int
	waiters[C]                             // all of them
	base        tenantQueue[C]             // those that wait for the variant without a name
	queues      map[string]*tenantQueue[C] // those that wait for others
	contended   []*tenantQueue[C]          // its queues for variants that other tenants wait for, too
	began       float64                    // the queue's virtual time when they began to wait
	served      float64                    // and when one of its clients was last served
	hasDeadline bool                       // it is in queue.deadlines: it uses no connection, and is not overdue
	ranked      rank                       // its place among the tenants

	inOrder, inFullest, inDeadlines int // its indices in the heaps of the queue
}

// SetTenants changes how tenants share the connections. Sessions continue, and clients keep waiting.
func (g *Group[C]) SetTenants(s *TenantSettings) {
	g.mu.Lock()
	g.settings = s
	for name := range s.Guaranteed {
		g.tenant(name)
	}
	for _, known := range []map[string]TenantTotals{g.departed.young, g.departed.old} {
		for name := range known {
			if s.Shares[name] > 0 { // its counters are its own again as soon as it is configured, not only with its next client
				g.tenant(name)
			}
		}
	}
	for _, t := range g.tenants {
		g.configure(t)
	}
	g.configure(&g.noTenant)
	g.scaleGuarantees()
	g.queue.sort()
	for _, t := range g.tenants {
		g.forgetTenant(t)
	}
	g.unlockAll()
}

// maxDeparted is how many tenants that are no longer known keep their counters, for when they return, at least. Tokens may name any number of them.
const maxDeparted = 500

// departed has the counters of tenants that are neither configured nor have clients: those of the last ones by name, and of all others together.
type departed struct {
	young, old map[string]TenantTotals // young has fewer than maxDeparted; then it becomes old
	others     TenantTotals
}

// add takes the counters of a tenant that leaves.
func (d *departed) add(name string, t *TenantTotals) {
	if *t == (TenantTotals{}) {
		return
	}
	if d.young == nil {
		d.young = make(map[string]TenantTotals)
	}
	if d.young[name] = *t; len(d.young) < maxDeparted {
		return
	}
	for _, t := range d.old {
		d.others.add(&t)
	}
	d.old, d.young = d.young, nil
}

// take returns the counters of a tenant that comes again, which are then its own.
func (d *departed) take(name string) TenantTotals {
	for _, known := range []map[string]TenantTotals{d.young, d.old} {
		if t, ok := known[name]; ok {
			delete(known, name)
			return t
		}
	}
	return TenantTotals{}
}

// sum returns the counters of all of them.
func (d *departed) sum() TenantTotals {
	all := d.others
	for _, known := range []map[string]TenantTotals{d.young, d.old} {
		for _, t := range known {
			all.add(&t)
		}
	}
	return all
}

// Tenants returns the tenants that the group knows, in no order, and the counters of those that it no longer knows. The clients without a
// tenant are among them, under the empty name, unless there never were any.
func (g *Group[C]) Tenants() (all []TenantStats, forgotten TenantTotals) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for t := range maps.Values(g.tenants) {
		all = append(all, t.stats())
	}
	if g.noTenant.totals != (TenantTotals{}) {
		all = append(all, g.noTenant.stats())
	}
	return all, g.departed.sum()
}

func (t *tenant[C]) stats() TenantStats {
	return TenantStats{t.name, t.share, t.guaranteed, t.promised, t.inUse, t.waiting + t.ahead, t.totals}
}

// The functions below are called with the mutex held.

// tenant returns the tenant of that name.
func (g *Group[C]) tenant(name string) *tenant[C] {
	if name == "" {
		return &g.noTenant
	}
	t := g.tenants[name]
	if t == nil {
		t = &tenant[C]{name: name, totals: g.departed.take(name)}
		g.configure(t)
		if g.tenants == nil {
			g.tenants = make(map[string]*tenant[C])
		}
		g.tenants[name] = t
	}
	return t
}

// configure gives a tenant its settings. The caller restores the order of the queue.
func (g *Group[C]) configure(t *tenant[C]) {
	share := g.settings.share(t.name)
	if t.waiting > 0 {
		g.queue.shares += share - t.share
	}
	t.share, t.turn, t.promised = share, 1/share, g.settings.Guaranteed[t.name]
}

// forgetTenant removes a tenant that is no longer needed.
func (g *Group[C]) forgetTenant(t *tenant[C]) {
	if t.inUse == 0 && t.waiting+t.ahead == 0 && !g.settings.keeps(t.name) {
		g.departed.add(t.name, &t.totals)
		delete(g.tenants, t.name)
	}
}

// use notes that the tenant's sessions use another connection (by is 1) or one less (-1).
func (g *Group[C]) use(t *tenant[C], by int) {
	if t == &g.noTenant && t.waiting == 0 { // as nearly always, where clients are not authenticated
		t.inUse += by
		return
	}
	g.useOf(t, by)
}

func (g *Group[C]) useOf(t *tenant[C], by int) {
	if t.guaranteed > 0 {
		g.reserved -= max(0, t.guaranteed-t.inUse)
		g.reserved += max(0, t.guaranteed-t.inUse-by)
	}
	if t.inUse += by; t.waiting > 0 {
		g.queue.reorder(t)
	} else if t.inUse == 0 && t != &g.noTenant {
		g.forgetTenant(t)
	}
}

// Some of a group's places can be guaranteed to a tenant: only its sessions may use them. They are not certain connections, but a
// number: while other tenants use so much that just this number is left, they wait, although connections are idle. The functions
// below are called with the mutex held, except Promised.

// scaleGuarantees works out how many places are guaranteed to each tenant: as many as it was promised, or, while the backends that work
// have less room than all promises need, the share of the room that its promise is of all promises, rounded down.
func (g *Group[C]) scaleGuarantees() {
	g.promised, g.reserved = 0, 0
	for _, t := range g.tenants {
		g.promised += t.promised
	}
	if g.promised == 0 {
		for _, t := range g.tenants {
			t.guaranteed = 0
		}
		return
	}
	room := 0
	for _, p := range g.pools {
		if p.serves() {
			room += p.limit
		}
	}
	for _, t := range g.tenants {
		t.guaranteed = t.promised
		if room < g.promised {
			high, low := bits.Mul64(uint64(t.promised), uint64(room)) // the product may need more than 64 bits
			scaled, _ := bits.Div64(high, low, uint64(g.promised))
			t.guaranteed = int(scaled)
		}
		g.reserved += max(0, t.guaranteed-t.inUse)
	}
}

// rescale adapts the guarantees after the room of a pool may have changed.
func (g *Group[C]) rescale() {
	if g.promised > 0 {
		g.scaleGuarantees()
		g.queue.sort()
	}
}

// open returns how many free places are guaranteed to no tenant. It is negative after guarantees have grown, until sessions have ended.
func (g *Group[C]) open() int {
	free := -g.reserved
	for _, p := range g.pools {
		if p.serves() {
			free += max(0, p.limit-p.using())
		}
	}
	return free
}

// entitles reports whether the tenant may use another place: one that is guaranteed to it, or to none.
func (g *Group[C]) entitles(t *tenant[C]) bool {
	return g.promised == 0 || t.inUse < t.guaranteed || g.open() > 0
}

// serves reports whether the pool's places count for the tenants: whether sessions may begin there, apart from a pause, and from those
// that there are.
func (p *Pool[C]) serves() bool { return p.mode == Enabled && p.usable && p.weight > 0 }

// Promised returns how many places are promised to tenants beyond those that they use. It may be called from any goroutine.
func (g *Group[C]) Promised() (places int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tenants {
		places += max(0, t.promised-t.inUse)
	}
	return places
}
