package pool

// Reserve takes a slot for a connection that is about to be dialed, if that keeps the pool within its cap and is wanted:
// for the warm connections beside those that serve sessions, or for clients that wait when this is the backend to dial
// for them. A connection that is being closed still counts against the cap, since its server may still hold it.
func (p *Pool[C]) Reserve() (*Slot[C], bool) {
	return p.reserveIf(func() bool { return p.lacking() })
}

// ReserveTrial takes a slot for a connection that is to show whether the backend is well, whether it is wanted or not.
func (p *Pool[C]) ReserveTrial() (*Slot[C], bool) {
	return p.reserveIf(func() bool { return true })
}

// ReserveProbe takes a place within the cap for a connection that never becomes one of the pool's: it shows whether the
// backend is well and is closed at once. It serves nobody, so no other is left undialed, and none retired, for it. The
// caller calls done when the connection has been closed.
func (p *Pool[C]) ReserveProbe() (done func(), ok bool) {
	g := p.group
	g.mu.Lock()
	if !p.room() {
		g.mu.Unlock()
		return nil, false
	}
	s := p.reserve()
	s.probe = true
	p.probes++
	g.unlock(p, false) // there is less room, and nothing else has changed
	return s.Abandoned, true
}

func (p *Pool[C]) reserveIf(wanted func() bool) (*Slot[C], bool) {
	g := p.group
	g.mu.Lock()
	if !p.room() || !wanted() {
		g.mu.Unlock()
		return nil, false
	}
	s := p.reserve()
	g.unlock(p, false) // it is the pool's worker who asks
	return s, true
}

// reserve makes a slot whose connection is being dialed. It is called with the mutex held.
func (p *Pool[C]) reserve() *Slot[C] {
	p.counts[Dialing]++
	return &Slot[C]{pool: p, state: Dialing}
}

// The functions below are called with the mutex held.

// leasable tells whether sessions may begin. After the cap was lowered that is when fewer are left than it allows.
func (p *Pool[C]) leasable() bool {
	return p.mode == Enabled && p.usable && p.weight > 0 && p.using() < p.limit
}

// coming returns how many connections of the pool are being dialed.
func (p *Pool[C]) coming() int { return p.counts[Dialing] - p.probes }

// present returns how many connections the backend may see.
func (p *Pool[C]) present() int {
	return p.counts[Dialing] + p.counts[Idle] + p.using()
}

// room tells whether another connection may be dialed.
func (p *Pool[C]) room() bool { return p.mode == Enabled && p.present()+p.counts[Retiring] < p.limit }

// lacking tells whether another connection is wanted, if there is room for it.
func (p *Pool[C]) lacking() bool { return p.coming()+p.counts[Idle] < p.warm || p.demanded() }

// due tells whether there is something to do for the pool's worker: to dial, or to retire. A backend that is not well it
// looks after at every occasion, since room, or an idle connection that makes room, is all that a trial needs.
func (p *Pool[C]) due() bool {
	return !p.usable || p.room() && p.lacking() ||
		p.counts[Idle] > 0 && (p.mode == Disabled || p.present() > p.limit || p.coming()+p.counts[Idle] > p.warm)
}

// demanded tells whether a connection should be dialed for a client that waits.
func (p *Pool[C]) demanded() bool {
	if p.group.queue.length == 0 || !p.dialsForClients() {
		return false
	}
	load, ok := p.group.demand()
	return ok && p.loadAfterDial() <= load
}

// demand returns the load of the backends that are to dial for clients that wait: the least there is among those that can.
// ok is false when as many are being dialed as clients are waiting, or nobody can dial.
func (g *Group[C]) demand() (least float64, ok bool) {
	dialing := 0
	for _, p := range g.pools {
		if p.leasable() {
			dialing += p.coming()
		}
		if p.dialsForClients() {
			if load := p.loadAfterDial(); !ok || load < least {
				least, ok = load, true
			}
		}
	}
	return least, ok && dialing < g.queue.length
}

// dialsForClients tells whether a connection can be dialed for a client.
func (p *Pool[C]) dialsForClients() bool { return p.leasable() && p.dialable && p.room() }

// using returns how many connections sessions use: a reset still belongs to one.
func (p *Pool[C]) using() int { return p.counts[Leased] + p.counts[Resetting] }

// load returns the share of the cap that so many used connections are, in relation to the weight.
func (p *Pool[C]) load(used int) float64 {
	return float64(used) / (float64(p.limit) * p.weight * p.ramp)
}

// loadAfterDial returns the load that a connection which is dialed for a client leads to.
func (p *Pool[C]) loadAfterDial() float64 { return p.load(p.using() + p.coming() + 1) }
