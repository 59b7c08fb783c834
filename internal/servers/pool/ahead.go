package pool

// This file serves the clients of sessions that have lost their server, or must leave it ([Waiter.Ahead]). They wait in a list of their
// own, the first first, and get a connection before all others: their clients are in the middle of something, and had a place until now. There
// is room for all of them, whatever the queue's limit is, since there are no more of them than there are sessions. The functions are
// called with the group's mutex held.

// allows reports whether the client may use a connection of the pool.
func (g *Group[C]) allows(w *Waiter[C], p *Pool[C]) bool {
	switch {
	case w.Only != nil:
		return p == w.Only
	case w.Prefer != nil && w.Prefer.dialsForClients():
		return p == w.Prefer
	case w.Avoid != nil && p == w.Avoid:
		for _, other := range g.pools {
			if other != p && (other.ready(w.Variant) || other.leasable() && other.dialable) {
				return false
			}
		}
	}
	return true
}

// chooseFor returns the pool to lease a connection to the client from, or nil when none has one for it.
func (g *Group[C]) chooseFor(w *Waiter[C]) (best *Pool[C]) {
	switch {
	case w.Prefer != nil && w.Prefer.ready(w.Variant):
		return w.Prefer
	case w.Prefer != nil && w.Ahead && w.Prefer.dialsFor(w.Variant):
		return nil
	case w.Only == nil && w.Avoid == nil:
		return g.choose(w.Variant, w.Key)
	}
	for _, p := range g.pools {
		if p.ready(w.Variant) && (best == nil || p.load(p.using()+1) < best.load(best.using()+1)) && g.allows(w, p) {
			best = p
		}
	}
	return best
}

// dialsFor reports whether a connection of a variant is being dialed, or will be if a client waits for it.
func (p *Pool[C]) dialsFor(variant string) bool {
	v := p.find(variant)
	return p.dialsForClients() || v != nil && v.coming > 0 && p.leasable()
}

// Offers reports whether a client that needs a connection of that variant, and prefers the pool, would get one now, or have one dialed.
func (p *Pool[C]) Offers(variant string) bool {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return p.ready(variant) || p.dialsForClients()
}

// pushAhead puts a client at the end of the list.
func (q *queue[C]) pushAhead(w *Waiter[C], now Instant) {
	w.ready, w.since = make(chan C, 1), now
	q.ahead = append(q.ahead, w)
	w.tenant.ahead++
	w.tenant.totals.Queued++
	q.length++
	q.totals.Queued++
	w.position, w.ticket = len(q.ahead), q.totals.Queued
}

// removeAhead takes a client out of the list, and returns false when it is not there.
func (q *queue[C]) removeAhead(w *Waiter[C]) bool {
	for i, other := range q.ahead {
		if other == w {
			copy(q.ahead[i:], q.ahead[i+1:])
			q.ahead[len(q.ahead)-1] = nil
			q.ahead = q.ahead[:len(q.ahead)-1]
			q.length--
			w.tenant.ahead--
			return true
		}
	}
	return false
}

// sameNeeds reports whether two clients can use the same connections.
func (w *Waiter[C]) sameNeeds(other *Waiter[C]) bool {
	return w.Variant == other.Variant && w.Avoid == other.Avoid && w.Only == other.Only && w.Prefer == other.Prefer && w.tenant == other.tenant
}

// servableAhead returns the first client in the list for whom there is an idle connection; nil for none.
func (g *Group[C]) servableAhead() *Waiter[C] {
	var unserved *Waiter[C] // so that many clients with the same needs cost little more than one
	for _, w := range g.queue.ahead {
		if unserved != nil && w.sameNeeds(unserved) {
			continue
		}
		if g.entitles(w.tenant) && g.chooseFor(w) != nil {
			return w
		}
		unserved = w
	}
	return nil
}

// undialedAhead is [Group.undialed] for the clients in the list. It passes over those for whom no backend can dial at present, or,
// if p is not nil, over those who may not use p.
func (g *Group[C]) undialedAhead(p *Pool[C]) (found *Waiter[C]) {
	var like *Waiter[C] // those before w that have the same needs
	coming := 0         // connections that are being dialed, which these may use, and that none before has used up
	freeing := 0        // places that are becoming free, for which the same holds
	dials := false      // a backend can dial for them
	for _, w := range g.queue.ahead {
		if like == nil || !w.sameNeeds(like) {
			like, coming, freeing, dials = w, 0, 0, false
			for _, other := range g.pools {
				if !other.leasable() || !g.allows(w, other) {
					continue
				}
				if v := other.find(w.Variant); v != nil {
					coming += v.unclaimed
				}
				freeing += other.unclaimed
				dials = dials || (p == nil && other.dialsForClients() || other == p) && g.entitles(w.tenant)
			}
		}
		switch {
		case coming > 0:
			coming--
			g.claimDial(w)
			g.queue.count(w.Variant, -1)
		case !dials:
		case freeing > 0:
			freeing--
			g.claimPlace(w)
		default:
			return w
		}
	}
	return nil
}

// claimDial notes that a client ahead waits for one of the connections that are being dialed, of a pool that it may use.
func (g *Group[C]) claimDial(w *Waiter[C]) {
	for _, p := range g.pools {
		if v := p.find(w.Variant); v != nil && v.unclaimed > 0 && p.leasable() && g.allows(w, p) {
			v.unclaimed--
			return
		}
	}
}

// claimPlace notes that a client ahead waits for one of the places that are becoming free, of a pool that it may use.
func (g *Group[C]) claimPlace(w *Waiter[C]) {
	for _, p := range g.pools {
		if p.unclaimed > 0 && g.allows(w, p) {
			p.unclaimed--
			return
		}
	}
}
