package pool

// Load is how busy one pool of a group is.
type Load[C any] struct {
	Pool   *Pool[C]
	Leased int // connections that serve a session
	Limit  int // most connections that there may be at present
	// Free is how many more sessions could begin there, as far as its connections are concerned.
	Free int
	// Grantable is how many connections the server accepts beyond those that this proxy was granted. It may get some if it asks for them.
	Grantable int
	// Weighted is the weight times how many connections the server accepts, however many of them are granted: what the pool's part of all
	// sessions is in proportion to.
	Weighted float64
	// Enabled: it is to get sessions. Serves: it also works, so that they may begin there when there is room, perhaps only few at first.
	// Takes: it gets them now, and is not being started slowly.
	Enabled, Serves, Takes bool
}

// LeasesEnded returns how many leases of the group's present pools have ended.
func (g *Group[C]) LeasesEnded() (n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pools {
		n += p.totals.Returned + p.totals.Discarded
	}
	return n
}

// Loads returns how busy the pools of the group are, in one step. Waiting is how many clients wait for a connection.
func (g *Group[C]) Loads() (all []Load[C], waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all = make([]Load[C], 0, len(g.pools))
	for _, p := range g.pools {
		l := Load[C]{
			Pool: p, Leased: p.counts[Leased], Limit: p.limit, Weighted: float64(p.size) * p.weight,
			Enabled: p.mode == Enabled, Serves: p.mode == Enabled && p.usable && p.weight > 0, Takes: p.leasable() && p.ramp >= 1,
		}
		if l.Serves && !g.paused {
			l.Grantable = p.size - p.limit
		}
		if p.leasable() {
			l.Free = p.counts[Idle]
			if p.dialable {
				l.Free = max(l.Free, p.limit-p.using()-p.counts[Retiring])
			}
		}
		all = append(all, l)
	}
	return all, g.queue.length
}
