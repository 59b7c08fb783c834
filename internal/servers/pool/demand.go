package pool

import (
	"math"
	"slices"
)

// maxOvertaken is how often a client that waits for a place is overtaken by others: see Group.holdsBack.
const maxOvertaken = 4

// This file decides which backend dials, or makes room, for clients that wait: the least loaded one. Its functions are called with the
// group's mutex held.

// due reports whether the pool's worker has something to dial or to retire. The worker of a backend that is out of service is always
// signalled, since room, or an idle connection that makes room, is all that a trial needs.
func (p *Pool[C]) due() bool {
	if !p.usable {
		return true
	}
	tooFew, tooMany := p.compareWarm()
	if tooFew && p.room() || p.counts[Idle] > 0 && (tooMany || p.mode == Disabled || p.overLimit()) || p.replaceable(tooFew, 1) {
		return true
	}
	return p.group.queue.length > 0 && (p.demanded() != nil || p.displaces())
}

// demanded returns the waiting client that the pool's worker is to dial for; nil for none.
func (p *Pool[C]) demanded() *Waiter[C] {
	if p.group.queue.length == 0 || !p.dialsForClients() {
		return nil
	}
	w, load := p.group.demand()
	if w == nil || p.loadAfterDial() > load || !p.group.allows(w, p) {
		return nil
	}
	return w
}

// demand returns the waiting client that is to be dialed for next, and the load of the backends that are to do it: the least
// of those that can. It returns nil when a connection is being dialed for every client, or no backend can dial.
func (g *Group[C]) demand() (w *Waiter[C], least float64) {
	least = math.Inf(1)
	if !slices.ContainsFunc(g.pools, (*Pool[C]).dialsForClients) {
		return nil, least
	}
	if w = g.undialed(nil, nil); w == nil {
		return nil, least
	}
	for _, p := range g.pools {
		if p.dialsForClients() && g.allows(w, p) {
			least = min(least, p.loadAfterDial())
		}
	}
	return w, least
}

// undialed returns the client that is served first of those for which no connection is being dialed; nil when there are no more before until,
// or, if that is nil, at all. If p is not nil, it is the first of those for which no place is becoming free either, and clients ahead who may
// not use p do not count. Its cost grows with the connections that are being dialed, not with the clients that wait.
func (g *Group[C]) undialed(until *Waiter[C], p *Pool[C]) (found *Waiter[C]) {
	q := &g.queue
	q.beginCount()
	for _, other := range g.pools {
		other.unclaimed = 0
		if !other.leasable() {
			continue
		}
		if p != nil {
			other.unclaimed = other.placesFreeing()
		}
		for _, v := range other.variants {
			if v.unclaimed = v.coming; v.coming > 0 {
				q.count(v.name, v.coming)
			}
		}
	}
	if len(q.ahead) > 0 {
		if found = g.undialedAhead(p); found != nil {
			return found
		}
	}
	skip := 0
	for _, other := range g.pools {
		skip += other.unclaimed
	}
	g.walk(func(w *Waiter[C]) bool {
		switch {
		case w == until:
			return false
		case q.covers(w):
		case skip == 0:
			found = w
			return false
		default:
			skip--
		}
		return true
	})
	return found
}

// dialsForClients reports whether the pool's worker can dial for a waiting client.
func (p *Pool[C]) dialsForClients() bool { return p.leasable() && p.dialable && p.room() }

// displaces reports whether the pool's oldest idle connection is to make room for a client that waits for another variant: when no backend
// that the client may use has room, this one is the least loaded of those that can make some, and less room is being made than is needed.
func (p *Pool[C]) displaces() bool {
	g := p.group
	if g.queue.length == 0 || !p.canDisplace() {
		return false
	}
	w := g.crowdedOut(p, nil)
	return w != nil && !slices.ContainsFunc(g.pools, func(other *Pool[C]) bool {
		return other.canDisplace() && other.loadAfterDial() < p.loadAfterDial() && g.allows(w, other)
	})
}

// crowdedOut returns the first client before until, as for [Group.undialed], for which an idle connection of p could make room: no backend that
// the client may use has any, and less is being made than is needed. It returns nil for none.
func (g *Group[C]) crowdedOut(p *Pool[C], until *Waiter[C]) *Waiter[C] {
	if len(g.queue.ahead) == 0 && slices.ContainsFunc(g.pools, (*Pool[C]).dialsForClients) { // the others may use any backend
		return nil
	}
	w := g.undialed(until, p)
	if w == nil || slices.ContainsFunc(g.pools, func(other *Pool[C]) bool { return other.dialsForClients() && g.allows(w, other) }) {
		return nil
	}
	return w
}

func (p *Pool[C]) canDisplace() bool {
	return p.counts[Idle] > 0 && p.leasable() && p.dialable && p.present() <= p.limit
}

// placesFreeing returns how many places will be free for dialing when the connections that are retiring are gone.
func (p *Pool[C]) placesFreeing() int {
	if !p.leasable() || !p.dialable {
		return 0
	}
	return max(0, min(p.counts[Retiring], p.limit-p.present()))
}

// holdsBack reports whether a client does not get an idle connection of p, because one that comes before it in the queue, and waits for
// another variant, needs its place. A client may be overtaken a few times, since that saves a dial, but not for ever. next is nil for
// a client that does not wait: it comes after all others.
func (g *Group[C]) holdsBack(p *Pool[C], next *Waiter[C]) bool {
	if g.queue.length == 0 || next != nil && (next.Ahead || len(g.queue.ahead) == 0 && g.queue.order.items[0].first == next) || !p.canDisplace() {
		return false
	}
	w := g.crowdedOut(p, next)
	if w == nil {
		return false
	}
	if w.overtaken >= g.maxOvertaken {
		return true
	}
	w.overtaken++
	return false
}

// leasable reports whether sessions may begin: not while the group is paused. After the limit was lowered, none begins until fewer are left than that.
func (p *Pool[C]) leasable() bool {
	return !p.group.paused && p.mode == Enabled && p.usable && !p.held && p.trial != trialTaken && p.weight > 0 && p.using() < p.limit
}

// coming returns how many connections of the pool are being dialed.
func (p *Pool[C]) coming() int { return p.counts[Dialing] - p.probes }

// using returns how many connections sessions use, resets included.
func (p *Pool[C]) using() int { return p.counts[Leased] + p.counts[Resetting] }

// present returns how many connections the backend may see.
func (p *Pool[C]) present() int { return p.counts[Dialing] + p.counts[Idle] + p.using() }

// room reports whether another connection may be dialed.
func (p *Pool[C]) room() bool {
	return p.mode == Enabled && p.present()+p.counts[Retiring]+p.awaited() < p.limit
}

// load returns the share of the cap that a number of used connections is, in relation to the weight.
func (p *Pool[C]) load(used int) float64 {
	return float64(used) / p.weightedSize
}

// loadAfterDial returns the load that the pool will have when it has dialed another connection for a client.
func (p *Pool[C]) loadAfterDial() float64 { return p.load(p.using() + p.coming() + 1) }

// unlockQueued releases the mutex after a client was queued, so that it is dialed for, or more places are asked for.
func (g *Group[C]) unlockQueued() {
	short := g.demanded != nil && g.isShort()
	g.unlock(nil, never)
	if short {
		g.demanded()
	}
}

// isShort reports whether more clients wait than sessions can begin within the limits.
func (g *Group[C]) isShort() bool {
	if g.paused {
		return false
	}
	left := g.queue.length
	for _, p := range g.pools {
		if p.leasable() {
			left -= p.limit - p.using()
		}
	}
	return left > 0
}

// vacant returns how many places no session uses that the tenant's sessions may use. As many clients may wait beyond the queue's limit, since
// that is for when all connections are in use: they wait only until connections are dialed.
func (g *Group[C]) vacant(t *tenant[C]) (places int) {
	if g.paused {
		return 0
	}
	for _, p := range g.pools {
		places += p.vacant()
	}
	return max(0, places-g.reserved+max(0, t.guaranteed-t.inUse))
}

// vacant returns how many places no session uses. Until the first dial has ended, it is unknown whether the server works, and the ledger may not
// have granted its places yet: then all of the server's count.
func (p *Pool[C]) vacant() int {
	switch {
	case p.mode == Enabled && p.weight > 0 && p.totals.Dialed+p.totals.DialFailed+p.totals.Refused == 0:
		return p.size
	case p.leasable():
		return p.limit - p.using()
	}
	return 0
}
