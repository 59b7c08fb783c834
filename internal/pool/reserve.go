package pool

// Reserve takes a slot for a connection that is about to be dialed, if that keeps the pool within its cap and is wanted:
// for clients that wait when this is the backend to dial for them, or for the warm connections beside those that serve
// sessions. [Slot.Variant] says of which variant. A connection that is being closed still counts against the cap, since its
// server may still hold it.
func (p *Pool[C]) Reserve() (*Slot[C], bool) {
	g := p.group
	g.mu.Lock()
	var v *variant[C]
	demanded := false
	if p.room() {
		if w := p.demanded(); w != nil {
			v, demanded = p.findOrAdd(w.Variant), true
			p.requested(v)
		} else {
			v = p.variantToPredial()
		}
	}
	return p.reserve(v, demanded)
}

// Demanded tells whether a connection is to be dialed for a client that waits.
func (p *Pool[C]) Demanded() bool {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return p.room() && p.demanded() != nil
}

// ReserveTrial takes a slot for a connection that is to show whether the backend is well, whether it is wanted or not. It is
// of the variant that was used last.
func (p *Pool[C]) ReserveTrial() (*Slot[C], bool) {
	p.group.mu.Lock()
	var v *variant[C]
	if p.room() {
		v = p.lastRequested()
	}
	return p.reserve(v, false)
}

// reserve makes a slot, of that variant or nil for none, and gives the mutex up.
func (p *Pool[C]) reserve(v *variant[C], demanded bool) (*Slot[C], bool) {
	if v == nil {
		p.group.mu.Unlock()
		return nil, false
	}
	s := p.newSlot(v)
	s.demanded = demanded
	v.coming++
	p.group.unlock(p, never)
	return s, true
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
	s := p.newSlot(&p.base)
	s.probe = true
	p.probes++
	g.unlock(p, never) // there is less room, and nothing else has changed for it
	return s.Abandoned, true
}

// newSlot makes a slot whose connection is being dialed. It is called with the mutex held.
func (p *Pool[C]) newSlot(v *variant[C]) *Slot[C] {
	p.counts[Dialing]++
	v.slots++
	return &Slot[C]{pool: p, variant: v, state: Dialing, generation: p.generation}
}
