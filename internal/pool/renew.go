package pool

// renewDivide: this part of a full pool, or one connection, is replaced at a time.
const renewDivide = 10

// Renew notes that connections are dialed with other settings from now on, so that those there are have to be replaced. They
// serve clients until then: it is for the worker, by Reserve and RetireOutdated, and for those who end leases.
func (p *Pool[C]) Renew() {
	p.update(func() {
		p.generation++
		p.outdated = p.counts[Idle]
		for _, v := range p.variants {
			v.outdated = v.idle
		}
	})
}

// RetireOutdated takes an idle connection out of service that was dialed before the last Renew, the one used longest ago. It
// does so when there are warm ones to take its place; or when there is no room to dial them, but then only while less than a tenth
// of the cap, and fewer than most, are being dialed or closed, so that the pool is there for clients all the time.
func (p *Pool[C]) RetireOutdated(most int) (conn C, ok bool) {
	p.group.mu.Lock()
	lacks, _ := p.compareWarm()
	if !p.replaceable(lacks, max(1, min(most, p.capacity/renewDivide))) {
		return p.retireNow(nil, 0)
	}
	var oldest *Slot[C]
	for _, v := range p.variants {
		for s := v.oldest; s != nil && v.outdated > 0; s = s.newer { // they are the first, but for few
			if p.isOutdated(s) {
				if oldest == nil || s.idleOrder < oldest.idleOrder {
					oldest = s
				}
				break
			}
		}
	}
	return p.retireNow(oldest, Outdated)
}

// The functions below are called with the mutex held.

// isOutdated compares generations, of which there are enough: no connection sees 65,536 changes.
func (p *Pool[C]) isOutdated(s *Slot[C]) bool { return s.generation != p.generation }

// replaceable tells whether an outdated idle connection may be retired, when warm ones lack or not.
func (p *Pool[C]) replaceable(lacks bool, atOnce int) bool {
	return p.outdated > 0 && (!lacks || !p.room() && p.mode == Enabled && p.counts[Dialing]+p.counts[Retiring] < atOnce)
}

// countOutdated notes that a slot has become idle (by is 1) or is no longer (-1).
func (p *Pool[C]) countOutdated(s *Slot[C], by int) {
	if p.isOutdated(s) {
		p.outdated += by
		s.variant.outdated += by
	}
}
