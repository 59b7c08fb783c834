package pool

import "fmt"

// Slot is a connection's entry in the book. It belongs to one pool; its methods may be called from any goroutine.
type Slot[C any] struct {
	pool     *Pool[C]
	variant  *variant[C]
	demanded bool // reserved for a client that waits; static

	// Guarded by the mutex of the pool's group.
	state        State
	probe        bool   // see ReserveProbe
	generation   uint16 // the pool's when it was reserved
	sessions     uint32 // also the number of the last lease
	conn         C
	older, newer *Slot[C] // neighbours in the order of the variant's idle slots
	idleSince    Instant
	idleOrder    uint64 // its place in the order of all of the pool's idle slots
}

// Filled puts the connection that was dialed into the slot: idle, or leased to a client that waits.
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

// Refused gives the slot up, because the server has refused what the clients of its variant say. Those who wait get the reason,
// see [Waiter.Refused], and leave the queue; no connection of the variant is kept warm until another client comes for it.
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

// Abandoned gives the slot up, because the proxy does not want the connection any more.
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

// Reset notes that the lease of that number is over but that the connection is not clean yet.
func (s *Slot[C]) Reset(lease uint64) {
	p := s.beginLease(lease, Leased, Leased)
	p.move(s, Resetting)
	s.end()
}

// Return ends the lease of that number: the connection is clean. It is idle, or leased to a client that waits.
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

// Withdraw retires the connection if it is idle, and returns false when it is leased: then it is up to the lease's
// holder. The caller closes the connection and then calls Gone.
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

// Variant returns the variant of the connection: what [Waiter.Variant] is to be of the clients that can use it.
func (s *Slot[C]) Variant() string { return s.variant.name }

// Demanded tells whether the connection is dialed for a client that waits, and not ahead.
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

// begin takes the mutex for a transition of the slot, which must be in one of two states: its holder used it after its end
// otherwise, and would corrupt the book. That is a mistake in the program, and it panics.
func (s *Slot[C]) begin(allowed, also State) *Pool[C] {
	p := s.pool
	p.group.mu.Lock()
	if s.state != allowed && s.state != also {
		p.group.misused(fmt.Sprintf("a slot that is %v was used as if it were %v", s.state, allowed))
	}
	return p
}

// beginLease is begin by the holder of a lease, which must be the present one, and not one that has ended.
func (s *Slot[C]) beginLease(lease uint64, allowed, also State) *Pool[C] {
	p := s.begin(allowed, also)
	if last := uint64(s.sessions); lease != last {
		p.group.misused(fmt.Sprintf("lease %d of a connection was used after its end: the last is %d", lease, last))
	}
	return p
}

// end gives the mutex up after a transition.
func (s *Slot[C]) end() {
	signal := whenDue
	if s.state == Gone {
		signal = always
	}
	s.pool.group.unlock(s.pool, signal)
}

// GiveUp ends the slot whatever its connection was doing, because of a mistake in the program. The connection has been closed. It may
// be called at any time, and changes nothing the second time.
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

// Misuse is the value of the panic when somebody uses a slot or a waiter after its end, or in a state that does not allow it. The books are
// as they were, and no lock is held.
type Misuse string

// Error returns what was wrong.
func (m Misuse) Error() string { return "pool: " + string(m) }

// Unharmed tells that nothing has changed.
func (Misuse) Unharmed() {}

// misused gives the mutex up and panics.
func (g *Group[C]) misused(how string) {
	g.mu.Unlock()
	panic(Misuse(how))
}
