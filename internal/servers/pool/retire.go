package pool

// renewDivide is what a full pool is divided by to get how much of it is replaced at a time: a tenth, or one connection.
const renewDivide = 10

// Renew makes all connections outdated, because others are dialed with other settings from now on. The outdated ones serve clients until
// they are replaced: idle ones by the worker (Reserve, RetireOutdated), leased ones when their leases end. Renew returns how many there are,
// those that are being dialed included.
func (p *Pool[C]) Renew() (outdated int) {
	p.update(func() {
		outdated = p.present() - p.probes
		p.generation++
		p.outdated = p.counts[Idle]
		for _, v := range p.variants {
			v.outdated = v.idle
		}
	})
	return outdated
}

// RetireOutdated retires the oldest idle connection that was dialed before the last Renew. It does so when enough warm ones can take its
// place; or when there is no room to dial those, but then only while fewer than a tenth of the limit, and than most, are being dialed or
// closed, so that clients always find connections. If the backend is draining, no client does: then nothing has to take its place.
func (p *Pool[C]) RetireOutdated(most int) (conn C, ok bool) {
	p.group.mu.Lock()
	tooFew, _ := p.compareWarm()
	if !p.replaceable(tooFew, max(1, min(most, p.limit/renewDivide))) {
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

// replaceable tells whether an outdated idle connection may be retired. tooFew reports whether warm ones are missing.
func (p *Pool[C]) replaceable(tooFew bool, atOnce int) bool {
	return p.outdated > 0 && (!tooFew || p.mode == Draining || !p.room() && p.mode == Enabled && p.counts[Dialing]+p.counts[Retiring] < atOnce)
}

// countOutdated notes that a slot has become idle (by is 1) or is no longer (-1).
func (p *Pool[C]) countOutdated(s *Slot[C], by int) {
	if p.isOutdated(s) {
		p.outdated += by
		s.variant.outdated += by
	}
}

// RetireOldest retires the connection that has been idle longest, if there is one. The caller closes it, and then calls Gone of its slot.
func (p *Pool[C]) RetireOldest(reason Reason) (conn C, ok bool) {
	p.group.mu.Lock()
	return p.retireNow(p.oldest(nil), reason)
}

// RetireSurplus retires the connection that has been idle longest, if it is not wanted: because the backend is disabled, because there
// are more connections than the cap, because a client waits for another variant and there is no room, or because more of its variant
// are idle than are kept warm, and it became idle before idleSince, on the group's clock. The caller closes it, and then calls Gone of its
// slot.
func (p *Pool[C]) RetireSurplus(idleSince Instant) (conn C, ok bool) {
	p.group.mu.Lock()
	switch {
	case p.counts[Idle] == 0:
		return p.retireNow(nil, 0)
	case p.mode == Disabled:
		return p.retireNow(p.oldest(nil), Withdrawn)
	case p.overLimit():
		return p.retireNow(p.oldest(nil), Surplus)
	case p.displaces():
		return p.retireNow(p.oldest(nil), Displaced)
	}
	return p.retireNow(p.oldest(func(v *variant[C]) bool {
		return p.surplusOf(v) > 0 && v.oldest.idleSince < idleSince
	}), Surplus)
}

// overLimit reports whether there are more connections than the limit, next to the spare place that is waited for. It is called with the mutex held.
func (p *Pool[C]) overLimit() bool { return p.present()+p.awaited() > p.limit }

// retireNow retires an idle slot, unless it is nil, and releases the mutex.
func (p *Pool[C]) retireNow(s *Slot[C], reason Reason) (conn C, ok bool) {
	if s == nil {
		p.group.mu.Unlock()
		return conn, false
	}
	p.retire(s, reason)
	conn = s.conn
	p.group.unlock(p, whenDue)
	return conn, true
}
