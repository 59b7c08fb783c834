package pool

import "math/bits"

// Some of a group's places can be guaranteed to a tenant: only its sessions may use them. They are not certain connections, but a
// number: while other tenants use so much that just this number is left, they wait, although connections are idle. The functions of
// this file are called with the mutex held.

// scaleGuarantees works out how many places are guaranteed to each tenant: as many as it was promised, or, while the backends that work
// have less room than all promises need, the part of the room that its promise is of all promises, rounded down.
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

// open returns how many free places are guaranteed to nobody. It is negative after guarantees have grown, until sessions have ended.
func (g *Group[C]) open() int {
	free := -g.reserved
	for _, p := range g.pools {
		if p.serves() {
			free += max(0, p.limit-p.using())
		}
	}
	return free
}

// entitles reports whether the tenant may use another place: one that is guaranteed to it, or to nobody.
func (g *Group[C]) entitles(t *tenant[C]) bool {
	return g.promised == 0 || t.inUse < t.guaranteed || g.open() > 0
}

// serves reports whether the pool's places count for the tenants: whether sessions may begin there, apart from a pause, and from those
// that there are.
func (p *Pool[C]) serves() bool { return p.mode == Enabled && p.usable && p.weight > 0 }
