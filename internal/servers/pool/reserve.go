package pool

// Reserve takes a slot for a connection that the caller is about to dial, if one is wanted and the cap allows it: for a client that
// waits, if this is the backend to dial for it, or as a warm connection. [Slot.Variant] says of which variant. Connections that are being
// closed count against the cap, since the server may still hold them.
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

// Demanded reports whether the caller is to dial for a client that waits.
func (p *Pool[C]) Demanded() bool {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return p.room() && p.demanded() != nil
}

// ReserveTrial takes a slot for the connection that shows whether the backend works again, whether it is wanted or not. It is of the
// variant that was requested last.
func (p *Pool[C]) ReserveTrial() (*Slot[C], bool) {
	p.group.mu.Lock()
	var v *variant[C]
	if p.room() {
		v = p.lastRequested()
	}
	return p.reserve(v, false)
}

// reserve makes a slot of the variant, unless that is nil, and releases the mutex.
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

// ReserveProbe takes a place within the cap for a probe: a connection that is closed at once and never becomes one of the pool's. Nothing
// else is retired or left undialed for it. The caller calls done when the connection has been closed.
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
	g.unlock(p, never) // there is less room, so nothing is to do
	return s.Abandoned, true
}

// newSlot makes a slot whose connection is being dialed. It is called with the mutex held.
func (p *Pool[C]) newSlot(v *variant[C]) *Slot[C] {
	p.counts[Dialing]++
	v.slots++
	return &Slot[C]{pool: p, variant: v, state: Dialing, generation: p.generation}
}
