// Package pool keeps the books: of each backend's connections, how many there are in which state, which of them is leased
// next, and that there are never more than the backend's cap; and of the clients that wait for one. It does no I/O and
// never waits.
//
// A connection's entry in the book of its [Pool] is its [Slot]. It is reserved before dialing, so that the cap holds at
// every instant, and given up when the connection's socket has been closed:
//
//	Reserve -> dialing -> Filled -> idle -> Acquire -> leased -> Reset -> resetting -> Return -> idle ...
//	                                  any of them -> Discard, Withdraw -> retiring -> Gone
//
// The pools of the backends that serve the same clients belong to a [Group], with one queue. A group has one lock, held
// for a few dozen instructions and never across a call of anybody else's code, so that choosing a backend, leasing its
// connection and handing one over to a waiting client are single steps, and the numbers are exact.
package pool

// Settings are what can be changed of a pool while it is in use.
type Settings struct {
	// Cap is the largest number of connections; at least 1.
	Cap int
	// Warm is how many connections are kept ready beside those in use, within the cap.
	Warm int
	// Weight is how much of the clients the backend gets, relative to its cap and to the others; 0 for none.
	Weight float64
}

// Pool is the book of one backend's connections. Its methods may be called from any goroutine.
type Pool[C any] struct {
	group *Group[C]
	// changed is called, outside the lock, whenever the number of connections wanted may have changed. Static.
	changed func()
	// seed tells the pool from the others of its group for [Hash]. Static.
	seed uint64

	// Guarded by the group's mutex.
	limit, warm int
	weight      float64
	ramp        float64
	current     float64 // for [RoundRobin]
	mode        Mode
	usable      bool
	dialable    bool
	counts      [states]int
	oldest      *Slot[C] // the idle slot that was used longest ago
	newest      *Slot[C] // the idle slot that was used last, and is leased next
	totals      Totals
}

// Set changes the settings. Connections that are too many now are for [Pool.RetireSurplus].
func (p *Pool[C]) Set(s Settings) {
	p.update(func() {
		if s.Weight != p.weight { // what was gained and paid by the old weights counts no more
			for _, other := range p.group.pools {
				other.current = 0
			}
		}
		p.limit, p.warm, p.weight = s.Cap, s.Warm, s.Weight
	})
}

// SetMode notes what the operator wants of the backend. Connections of a disabled one are for [Pool.RetireSurplus].
func (p *Pool[C]) SetMode(m Mode) { p.update(func() { p.mode = m }) }

// SetUsable notes whether the backend is well. Nothing is leased while it is not.
func (p *Pool[C]) SetUsable(usable bool) { p.update(func() { p.usable = usable }) }

// SetDialable notes whether connections can be dialed for clients that wait. It is for a time in which none will be, so
// that the other backends of the group take over.
func (p *Pool[C]) SetDialable(dialable bool) { p.update(func() { p.dialable = dialable }) }

// SetRamp sets the part of the weight that counts, above 0 and at most 1, for a backend that has recovered and is to get
// its clients little by little.
func (p *Pool[C]) SetRamp(ramp float64) { p.update(func() { p.ramp = ramp }) }

// update changes what the choice of a backend depends on.
func (p *Pool[C]) update(change func()) {
	g := p.group
	g.mu.Lock()
	change()
	g.serve()
	all := g.pools
	g.mu.Unlock()
	for _, p := range all {
		p.changed()
	}
}

// Reserve takes a slot for a connection that is about to be dialed, if that keeps the pool within its cap and is wanted:
// for the warm connections beside those that serve sessions, or for clients that wait when this is the backend to dial
// for them. A connection that is being closed still counts against the cap, since its server may still hold it.
func (p *Pool[C]) Reserve() (*Slot[C], bool) {
	return p.reserveIf(func() bool { return p.counts[Dialing]+p.counts[Idle] < p.warm || p.demanded() })
}

// ReserveTrial takes a slot for a connection that is to show whether the backend is well, whether it is wanted or not.
func (p *Pool[C]) ReserveTrial() (*Slot[C], bool) {
	return p.reserveIf(func() bool { return true })
}

func (p *Pool[C]) reserveIf(wanted func() bool) (*Slot[C], bool) {
	p.group.mu.Lock()
	if !p.room() || !wanted() {
		p.group.mu.Unlock()
		return nil, false
	}
	p.counts[Dialing]++
	p.group.mu.Unlock()
	p.group.signalOthers(p)
	return &Slot[C]{pool: p, state: Dialing}, true
}

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
		case p.counts[Dialing]+p.counts[Idle] > p.warm && p.oldest.idleSince < idleSince:
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
	p.group.mu.Unlock()
	p.changed()
	return conn, true
}

// The functions below are called with the mutex held.

// leasable tells whether sessions may begin. After the cap was lowered that is when fewer are left than it allows.
func (p *Pool[C]) leasable() bool {
	return p.mode == Enabled && p.usable && p.weight > 0 && p.counts[Leased]+p.counts[Resetting] < p.limit
}

// present returns how many connections the backend may see.
func (p *Pool[C]) present() int {
	return p.counts[Dialing] + p.counts[Idle] + p.counts[Leased] + p.counts[Resetting]
}

// room tells whether another connection may be dialed.
func (p *Pool[C]) room() bool { return p.mode == Enabled && p.present()+p.counts[Retiring] < p.limit }

// demanded tells whether a connection should be dialed for a client that waits: when fewer are being dialed than clients
// are waiting, and no other backend is to do it.
func (p *Pool[C]) demanded() bool {
	g := p.group
	if g.queue.length == 0 || !p.dialsForClients() {
		return false
	}
	dialing := 0
	for _, other := range g.pools {
		if other.leasable() {
			dialing += other.counts[Dialing]
		}
		if other.dialsForClients() && other.load(1) < p.load(1) {
			return false
		}
	}
	return dialing < g.queue.length
}

// dialsForClients tells whether a connection can be dialed for a client.
func (p *Pool[C]) dialsForClients() bool { return p.leasable() && p.dialable && p.room() }

// load returns the share of the cap that sessions would use with so many connections more, in relation to the weight.
func (p *Pool[C]) load(more int) float64 {
	used := p.counts[Leased] + p.counts[Resetting] + more
	if more > 0 {
		used += p.counts[Dialing]
	}
	return float64(used) / (float64(p.limit) * p.weight * p.ramp)
}

// rest makes a slot idle, for the group to serve a client with it.
func (p *Pool[C]) rest(s *Slot[C]) {
	s.idleSince = p.group.now()
	p.link(s)
	p.move(s, Idle)
}

// takeNewest leases the idle connection that was used last.
func (p *Pool[C]) takeNewest() C {
	s := p.newest
	p.unlink(s)
	s.sessions++
	p.totals.Leased++
	p.move(s, Leased)
	return s.conn
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
