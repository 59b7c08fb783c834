package pool

// RetireOldest takes the idle connection that was used longest ago out of service, if there is one. Its slot is retiring:
// the caller closes the connection and then calls Gone.
func (p *Pool[C]) RetireOldest(reason Reason) (conn C, ok bool) {
	p.group.mu.Lock()
	return p.retireNow(p.oldest(nil), reason)
}

// RetireSurplus takes the idle connection that was used longest ago out of service, if it should not be there: because the
// backend is disabled, because there are more connections than the cap, because a client waits for another variant and there
// is no room, or because there are more idle ones of its variant than are kept warm and it has not been used for a while:
// since before idleSince, as the clock given to [NewGroup] tells the time.
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

// retireNow retires an idle slot, or nil for none, and gives the mutex up.
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
