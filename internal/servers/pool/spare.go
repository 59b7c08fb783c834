package pool

// Spare is a place within the cap for a connection that is played a canary: one that serves no client and never becomes one of the pool's.
type Spare[C any] struct {
	pool  *Pool[C]
	ready chan struct{} // closed when slot is there
	slot  *Slot[C]      // guarded by the group's mutex; nil while the place is in use by a connection that is being closed
}

// ReserveSpare takes a place that no client needs now: at least one more must be free or idle. A pool has one at a time. If all other places
// are taken by idle connections, one of them is retired: retire tells that the caller closes conn, whose place becomes the spare one.
// The caller waits for Ready and, in any case, calls Done.
func (p *Pool[C]) ReserveSpare() (s *Spare[C], conn C, retire, ok bool) {
	g := p.group
	g.mu.Lock()
	free := p.limit - p.present() - p.counts[Retiring]
	if p.mode != Enabled || p.spare != nil || g.queue.length > 0 || free < 0 || free+p.counts[Idle] < 2 {
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
// is gone.
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

// Done gives the place back. It is called once, when the connection has been closed, or when it is not waited for any more.
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
