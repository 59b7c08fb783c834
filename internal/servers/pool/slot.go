package pool

import (
	"fmt"
)

// Slot is a connection's place in a pool. Its methods may be called from any goroutine; each call must fit the slot's state, or it
// panics with [Misuse].
type Slot[C any] struct {
	// Static.
	pool     *Pool[C]
	variant  *variant[C]
	demanded bool // reserved for a client that waits

	// Guarded by the mutex of the pool's group.
	state        State
	probe        bool   // see ReserveProbe
	generation   uint16 // the pool's when it was reserved
	sessions     uint32 // also the number of the last lease
	conn         C
	tenant       *tenant[C] // whose session uses it; nil while none does
	older, newer *Slot[C]   // neighbours among the variant's idle slots, in the order in which they became idle
	idleSince    Instant
	idleOrder    uint64 // its place among all of the pool's idle slots
}

// Filled puts the connection that was dialed into the slot. It is idle then, or leased to a client that waits.
func (s *Slot[C]) Filled(conn C) {
	p := s.begin(Dialing, Dialing)
	s.variant.coming--
	s.conn = conn
	p.totals.Dialed++
	p.makeIdle(s)
	s.end()
}

// Failed gives the slot up, because the connection could not be established.
func (s *Slot[C]) Failed() {
	p := s.begin(Dialing, Dialing)
	s.variant.coming--
	p.totals.DialFailed++
	p.move(s, Gone)
	s.end()
}

// Refused gives the slot up, because the server has refused what the clients of its variant say. Those that wait leave the queue with
// the reason ([Waiter.Refused]). No connection of the variant is kept warm until another client requests it.
func (s *Slot[C]) Refused(why error) {
	p := s.begin(Dialing, Dialing)
	s.variant.coming--
	p.totals.Refused++
	p.group.queue.refuse(s.variant.name, why)
	if p.maxVariants > 0 {
		s.variant.keptWarm = false // others of its kind would be refused as well
	}
	p.move(s, Gone)
	s.end()
}

// Abandoned gives the slot up, because the proxy no longer wants the connection.
func (s *Slot[C]) Abandoned() {
	p := s.begin(Dialing, Dialing)
	if s.probe {
		p.probes--
	} else {
		s.variant.coming--
	}
	p.move(s, Gone)
	s.end()
}

// Reset ends the session of that lease. The connection is not clean yet: Return or Discard ends the lease.
func (s *Slot[C]) Reset(lease uint64) {
	p := s.beginLease(lease, Leased, Leased)
	p.move(s, Resetting)
	s.end()
}

// Return ends the lease of that number: the connection is clean. It is idle then, or leased to a client that waits.
func (s *Slot[C]) Return(lease uint64) {
	p := s.beginLease(lease, Leased, Resetting)
	p.totals.Returned++
	p.makeIdle(s)
	s.end()
}

// Discard ends the lease of that number: the connection is retired. The caller closes it and then calls Gone.
func (s *Slot[C]) Discard(lease uint64, reason Reason) {
	p := s.beginLease(lease, Leased, Resetting)
	p.retire(s, reason)
	s.end()
}

// Withdraw retires the connection if it is idle. The caller closes it then, and calls Gone. Withdraw returns false when the connection is
// leased or retiring: the one that leased or retired it closes it.
func (s *Slot[C]) Withdraw(reason Reason) bool {
	p := s.pool
	p.group.mu.Lock()
	if s.state != Idle {
		p.group.mu.Unlock()
		return false
	}
	p.retire(s, reason)
	p.group.unlock(p, whenDue)
	return true
}

// Gone gives the slot up after its retired connection was closed.
func (s *Slot[C]) Gone() {
	p := s.begin(Retiring, Retiring)
	p.move(s, Gone)
	s.end()
}

// Variant returns the variant of the connection: clients with the same [Waiter.Variant] can use it.
func (s *Slot[C]) Variant() string { return s.variant.name }

// Demanded reports whether the connection is dialed for a client that waits.
func (s *Slot[C]) Demanded() bool { return s.demanded }

// State returns what the connection is doing.
func (s *Slot[C]) State() State {
	s.pool.group.mu.Lock()
	defer s.pool.group.mu.Unlock()
	return s.state
}

// Sessions returns how many sessions the connection has served, the present one included. While it is leased, that is the
// number of the lease.
func (s *Slot[C]) Sessions() uint64 {
	s.pool.group.mu.Lock()
	defer s.pool.group.mu.Unlock()
	return uint64(s.sessions)
}

// begin takes the mutex for a transition of the slot, which must be in one of two states. If it is not, its holder uses it after its
// end, and the numbers would be wrong: begin panics.
func (s *Slot[C]) begin(allowed, also State) *Pool[C] {
	p := s.pool
	p.group.mu.Lock()
	if s.state != allowed && s.state != also {
		p.group.misused(fmt.Sprintf("a slot that is %v was used as if it were %v", s.state, allowed))
	}
	return p
}

// beginLease is begin for the holder of a lease, which must not have ended.
func (s *Slot[C]) beginLease(lease uint64, allowed, also State) *Pool[C] {
	p := s.begin(allowed, also)
	if last := uint64(s.sessions); lease != last {
		p.group.misused(fmt.Sprintf("lease %d of a connection was used after its end: the last is %d", lease, last))
	}
	return p
}

// end releases the mutex after a transition.
func (s *Slot[C]) end() {
	if s.state != Gone {
		s.pool.group.unlock(s.pool, whenDue)
		return
	}
	p := s.pool
	wasOver := p.isOver()
	p.group.unlock(p, always)
	if wasOver && p.group.demanded != nil {
		p.group.demanded()
	}
}

// GiveUp gives the slot up in any state, after a panic. The caller has closed the connection. The second call changes nothing.
func (s *Slot[C]) GiveUp() {
	p := s.pool
	p.group.mu.Lock()
	switch s.state {
	case Gone:
		p.group.mu.Unlock()
		return
	case Dialing:
		if s.probe {
			p.probes--
		} else {
			s.variant.coming--
		}
	case Idle, Leased, Resetting:
		p.retire(s, InternalError)
	}
	p.move(s, Gone)
	s.end()
}

// Misuse is the value of the panic when a slot or a waiter is used after its end, or in a state that does not allow it. Nothing has
// changed, and no lock is held.
type Misuse string

// Error returns what was wrong.
func (m Misuse) Error() string { return "pool: " + string(m) }

// Unharmed tells that nothing has changed.
func (Misuse) Unharmed() {}

// misused releases the mutex and panics.
func (g *Group[C]) misused(how string) {
	g.mu.Unlock()
	panic(Misuse(how))
}

// The functions below are called with the group's mutex held.

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
