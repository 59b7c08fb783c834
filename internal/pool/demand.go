package pool

import "math"

// maxOvertaken is how often a client that waits for a place is passed by others: see Group.holdsBack.
const maxOvertaken = 4

// The functions of this file are called with the group's mutex held. What they find out depends on all pools of the group,
// since the backend that is least loaded dials for the clients that wait.

// due tells whether there is something to do for the pool's worker: to dial, or to retire. A backend that is not well it
// looks after at every occasion, since room, or an idle connection that makes room, is all that a trial needs.
func (p *Pool[C]) due() bool {
	if !p.usable {
		return true
	}
	lacks, abounds := p.compareWarm()
	if lacks && p.room() || p.counts[Idle] > 0 && (abounds || p.mode == Disabled || p.present() > p.limit) || p.replaceable(lacks, 1) {
		return true
	}
	return p.group.queue.length > 0 && (p.demanded() != nil || p.displaces())
}

// demanded returns the client that waits for whom the pool's worker is to dial a connection; nil for none.
func (p *Pool[C]) demanded() *Waiter[C] {
	if p.group.queue.length == 0 || !p.dialsForClients() {
		return nil
	}
	w, load := p.group.demand()
	if p.loadAfterDial() > load {
		return nil
	}
	return w
}

// demand returns the client that waits for whom a connection is to be dialed next, and the load of the backends that are to
// do it: the least there is among those that can. It returns nil when a connection is being dialed for everybody, or nobody
// can dial.
func (g *Group[C]) demand() (w *Waiter[C], least float64) {
	least = math.Inf(1)
	for _, p := range g.pools {
		if p.dialsForClients() {
			least = min(least, p.loadAfterDial())
		}
	}
	if math.IsInf(least, 1) {
		return nil, least
	}
	return g.undialed(0), least
}

// undialed returns who has waited longest of the clients for whom no connection is being dialed, so many passed over; nil
// when there are no more. It costs as much as connections are being dialed, not as clients wait.
func (g *Group[C]) undialed(pass int) *Waiter[C] {
	q := &g.queue
	q.beginCount()
	for _, p := range g.pools {
		if !p.leasable() {
			continue
		}
		for _, v := range p.variants {
			if v.coming > 0 {
				q.count(v.name, v.coming)
			}
		}
	}
	for w := q.first; w != nil; w = w.behind {
		switch {
		case q.covers(w):
		case pass == 0:
			return w
		default:
			pass--
		}
	}
	return nil
}

// dialsForClients tells whether a connection can be dialed for a client.
func (p *Pool[C]) dialsForClients() bool { return p.leasable() && p.dialable && p.room() }

// displaces tells whether the idle connection that was used longest ago is to make room for a client that waits for another
// variant: when no backend has room for what it needs, this one is the least loaded of those that can make some, and less is
// being made than is needed.
func (p *Pool[C]) displaces() bool {
	g := p.group
	if g.queue.length == 0 || !p.canDisplace() {
		return false
	}
	for _, other := range g.pools {
		if other.dialsForClients() || other.canDisplace() && other.loadAfterDial() < p.loadAfterDial() {
			return false
		}
	}
	return g.undialed(g.making()) != nil
}

func (p *Pool[C]) canDisplace() bool {
	return p.counts[Idle] > 0 && p.leasable() && p.dialable && p.present() <= p.limit
}

// making returns how many places will be free for dialing when the connections that are retiring are gone.
func (g *Group[C]) making() (places int) {
	for _, p := range g.pools {
		if p.leasable() && p.dialable {
			places += max(0, min(p.counts[Retiring], p.limit-p.present()))
		}
	}
	return places
}

// holdsBack tells whether an idle connection of p is kept from the client that came as the number ticket, because one that
// waits for longer, for another variant, needs its place. A client may be passed so a few times, since that costs nobody a
// dial, but not for ever.
func (g *Group[C]) holdsBack(p *Pool[C], ticket uint64) bool {
	if g.queue.length == 0 || g.queue.first.ticket >= ticket || !p.canDisplace() {
		return false
	}
	for _, other := range g.pools {
		if other.dialsForClients() {
			return false
		}
	}
	w := g.undialed(g.making())
	if w == nil || w.ticket >= ticket {
		return false
	}
	if w.overtaken >= g.maxOvertaken {
		return true
	}
	w.overtaken++
	return false
}

// leasable tells whether sessions may begin. After the cap was lowered that is when fewer are left than it allows.
func (p *Pool[C]) leasable() bool {
	return p.mode == Enabled && p.usable && p.weight > 0 && p.using() < p.limit
}

// coming returns how many connections of the pool are being dialed.
func (p *Pool[C]) coming() int { return p.counts[Dialing] - p.probes }

// using returns how many connections sessions use: a reset still belongs to one.
func (p *Pool[C]) using() int { return p.counts[Leased] + p.counts[Resetting] }

// present returns how many connections the backend may see.
func (p *Pool[C]) present() int { return p.counts[Dialing] + p.counts[Idle] + p.using() }

// room tells whether another connection may be dialed.
func (p *Pool[C]) room() bool { return p.mode == Enabled && p.present()+p.counts[Retiring] < p.limit }

// load returns the share of the cap that so many used connections are, in relation to the weight.
func (p *Pool[C]) load(used int) float64 {
	return float64(used) / p.weightedLimit
}

// loadAfterDial returns the load that a connection which is dialed for a client leads to.
func (p *Pool[C]) loadAfterDial() float64 { return p.load(p.using() + p.coming() + 1) }
