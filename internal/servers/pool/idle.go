package pool

// The functions of this file are called with the group's mutex held.

// makeIdle makes a slot idle. Group.unlock gives it to a client that waits.
func (p *Pool[C]) makeIdle(s *Slot[C]) {
	p.idleCount++
	s.idleSince, s.idleOrder = p.group.now(), p.idleCount
	s.variant.link(s)
	p.countOutdated(s, 1)
	p.move(s, Idle)
}

// takeNewest leases the connection of a variant that became idle last.
func (p *Pool[C]) takeNewest(v *variant[C]) *Slot[C] {
	s := v.newest
	v.unlink(s)
	p.countOutdated(s, -1)
	if !p.hasNoVariants() {
		p.requested(v)
	}
	s.sessions++
	p.totals.Leased++
	if p.trial == trialOpen {
		p.trial = trialTaken
	}
	p.move(s, Leased)
	return s
}

func (p *Pool[C]) move(s *Slot[C], to State) {
	p.counts[s.state]--
	s.state = to
	if s.tenant != nil && to != Leased && to != Resetting {
		p.group.use(s.tenant, -1)
		s.tenant = nil
	}
	if to != Gone {
		p.counts[to]++
		return
	}
	s.variant.slots--
	p.forgetUnused(s.variant)
	p.fillSpare()
}

// retire moves a slot that is idle, leased or resetting to retiring.
func (p *Pool[C]) retire(s *Slot[C], reason Reason) {
	if s.state == Idle {
		s.variant.unlink(s)
		p.countOutdated(s, -1)
		p.totals.RetiredIdle++
	} else {
		p.totals.Discarded++
	}
	p.totals.Reasons[reason]++
	p.move(s, Retiring)
}

// link makes s the newest idle slot.
func (v *variant[C]) link(s *Slot[C]) {
	v.idle++
	s.older, s.newer = v.newest, nil
	if v.newest != nil {
		v.newest.newer = s
	} else {
		v.oldest = s
	}
	v.newest = s
}

func (v *variant[C]) unlink(s *Slot[C]) {
	v.idle--
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		v.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		v.newest = s.older
	}
	s.older, s.newer = nil, nil
}
