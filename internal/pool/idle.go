package pool

// The functions of this file are called with the group's mutex held.

// rest makes a slot idle, for the group to serve a client with it.
func (p *Pool[C]) rest(s *Slot[C]) {
	s.idleSince = p.group.now()
	p.link(s)
	p.move(s, Idle)
}

// takeNewest leases the idle connection that was used last.
func (p *Pool[C]) takeNewest() *Slot[C] {
	s := p.newest
	p.unlink(s)
	s.sessions++
	p.totals.Leased++
	p.move(s, Leased)
	return s
}

func (p *Pool[C]) move(s *Slot[C], to State) {
	p.counts[s.state]--
	s.state = to
	if to != Gone {
		p.counts[to]++
	}
}

// retire moves a slot that is idle, leased or resetting to retiring.
func (p *Pool[C]) retire(s *Slot[C], reason Reason) {
	if s.state == Idle {
		p.unlink(s)
		p.totals.RetiredIdle++
	} else {
		p.totals.Discarded++
	}
	p.totals.Reasons[reason]++
	p.move(s, Retiring)
}

// link makes s the newest idle slot.
func (p *Pool[C]) link(s *Slot[C]) {
	s.older, s.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = s
	} else {
		p.oldest = s
	}
	p.newest = s
}

func (p *Pool[C]) unlink(s *Slot[C]) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		p.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		p.newest = s.older
	}
	s.older, s.newer = nil, nil
}
