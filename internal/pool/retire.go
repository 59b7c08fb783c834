package pool

// RetireOldest takes the idle connection that was used longest ago out of service, if there is one. Its slot is retiring:
// the caller closes the connection and then calls Gone.
func (p *Pool[C]) RetireOldest(reason Reason) (conn C, ok bool) {
	return p.retireOldestIf(func() (Reason, bool) { return reason, true })
}

// RetireSurplus takes the idle connection that was used longest ago out of service, if it should not be there: because the
// backend is disabled, because there are more connections than the cap, or because there are more idle ones than are kept
// warm and it has not been used for a while: since before idleSince, as the clock given to [NewGroup] tells the time.
func (p *Pool[C]) RetireSurplus(idleSince Instant) (conn C, ok bool) {
	return p.retireOldestIf(func() (Reason, bool) {
		switch {
		case p.mode == Disabled:
			return Withdrawn, true
		case p.present() > p.limit:
			return Surplus, true
		case p.coming()+p.counts[Idle] > p.warm && p.oldest.idleSince < idleSince:
			return Surplus, true
		}
		return 0, false
	})
}

func (p *Pool[C]) retireOldestIf(due func() (Reason, bool)) (conn C, ok bool) {
	p.group.mu.Lock()
	s := p.oldest
	var reason Reason
	if s != nil {
		reason, ok = due()
	}
	if !ok {
		p.group.mu.Unlock()
		return conn, false
	}
	p.retire(s, reason)
	conn = s.conn
	p.group.unlock(p, p.due())
	return conn, true
}
