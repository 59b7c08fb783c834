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

// Spare is a place within the cap for a connection that shows whether the backend works, by a canary or a probe: one that serves no client and never
// becomes one of the pool's.
type Spare[C any] struct {
	pool  *Pool[C]
	ready chan struct{} // closed when slot is there
	slot  *Slot[C]      // guarded by the group's mutex; nil while the place is in use by a connection that is being closed
}

// ReserveSpare takes a place that no client needs now: none waits, and at least one more is free or idle. While the pool is not usable, clients
// need none of its places, and the spare one may be what brings the backend back. A pool has one at a time. If all other places
// are taken by idle connections, one of them is retired: retire tells that the caller closes conn, whose place becomes the spare one.
// The caller waits for Ready and, in any case, calls Done.
func (p *Pool[C]) ReserveSpare() (s *Spare[C], conn C, retire, ok bool) {
	g := p.group
	g.mu.Lock()
	free := p.limit - p.present() - p.counts[Retiring]
	left := free + p.counts[Idle]
	if p.mode != Enabled || p.spare != nil || free < 0 || left < 1 || p.usable && (left < 2 || g.queue.length > 0) {
		g.mu.Unlock()
		return nil, conn, false, false
	}
	s = &Spare[C]{pool: p, ready: make(chan struct{})}
	p.spare = s
	if free > 0 {
		p.fillSpare()
		g.unlock(p, never)
		return s, conn, false, true
	}
	conn, retire = p.retireNow(p.oldest(nil), Suspected)
	return s, conn, retire, true
}

// fillSpare gives the spare place that is waited for its slot, if there is room. It is called with the mutex held, whenever a connection
// is gone or the limit has changed.
func (p *Pool[C]) fillSpare() {
	s := p.spare
	if s == nil || s.slot != nil || p.present()+p.counts[Retiring] >= p.limit {
		return
	}
	s.slot = p.newSlot(&p.base)
	s.slot.probe = true
	p.probes++
	close(s.ready)
}

// awaited returns how many places are kept free for a spare one.
func (p *Pool[C]) awaited() int {
	if p.spare != nil && p.spare.slot == nil {
		return 1
	}
	return 0
}

// Ready is closed when the place is there, so that its connection may be dialed.
func (s *Spare[C]) Ready() <-chan struct{} { return s.ready }

// Done gives the place back. It is called once, when the connection has been closed, or when it is no longer waited for.
func (s *Spare[C]) Done() {
	p := s.pool
	p.group.mu.Lock()
	slot := s.slot
	p.spare = nil
	if slot == nil {
		p.group.unlock(p, always)
		return
	}
	p.group.mu.Unlock()
	slot.Abandoned()
}
