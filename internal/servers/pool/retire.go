package pool

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
	case p.present() > p.limit:
		return p.retireNow(p.oldest(nil), Surplus)
	case p.displaces():
		return p.retireNow(p.oldest(nil), Displaced)
	}
	return p.retireNow(p.oldest(func(v *variant[C]) bool {
		return p.surplusOf(v) > 0 && v.oldest.idleSince < idleSince
	}), Surplus)
}

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
