package pool

import (
	"fmt"
	"slices"
)

// Slot is a connection's entry in the book. It belongs to one pool; its methods may be called from any goroutine.
type Slot[C any] struct {
	pool *Pool[C]

	// Guarded by the mutex of the pool's group.
	state        State
	conn         C
	older, newer *Slot[C] // neighbours in the order of idle slots
	sessions     uint64
	idleSince    Instant
}

// Filled puts the connection that was dialed into the slot: idle, or leased to a client that waits.
func (s *Slot[C]) Filled(conn C) {
	s.dialed(func() {
		s.conn = conn
		s.pool.totals.Dialed++
		s.pool.rest(s)
	})
}

// Failed gives the slot up, because the connection could not be established.
func (s *Slot[C]) Failed() {
	s.dialed(func() {
		s.pool.totals.DialFailed++
		s.pool.move(s, Gone)
	})
}

// Abandoned gives the slot up, because the proxy does not want the connection any more.
func (s *Slot[C]) Abandoned() {
	s.dialed(func() { s.pool.move(s, Gone) })
}

// dialed ends the dialing. Another backend may be the one to dial for the clients that wait now.
func (s *Slot[C]) dialed(transition func()) {
	s.change(transition, Dialing)
	s.pool.group.signalOthers(s.pool)
}

// Reset notes that the lease is over but that the connection is not clean yet.
func (s *Slot[C]) Reset() {
	s.change(func() { s.pool.move(s, Resetting) }, Leased)
}

// Return ends the lease: the connection is clean. It is idle, or leased to a client that waits.
func (s *Slot[C]) Return() {
	s.change(func() {
		s.pool.totals.Returned++
		s.pool.rest(s)
	}, Leased, Resetting)
}

// Discard ends the lease: the connection is retired. The caller closes it and then calls Gone.
func (s *Slot[C]) Discard(reason Reason) {
	s.change(func() { s.pool.retire(s, reason) }, Leased, Resetting)
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
	p.group.mu.Unlock()
	p.changed()
	return true
}

// Gone gives the slot up after its retired connection was closed.
func (s *Slot[C]) Gone() {
	s.change(func() { s.pool.move(s, Gone) }, Retiring)
}

// State returns what the connection is doing.
func (s *Slot[C]) State() State {
	s.pool.group.mu.Lock()
	defer s.pool.group.mu.Unlock()
	return s.state
}

// Sessions returns how many sessions the connection has served, the present one included.
func (s *Slot[C]) Sessions() uint64 {
	s.pool.group.mu.Lock()
	defer s.pool.group.mu.Unlock()
	return s.sessions
}

// change makes a transition of the slot, which must be in one of the allowed states: its holder used it after its end
// otherwise, and would corrupt the book. That is a mistake in the program, and it panics.
func (s *Slot[C]) change(transition func(), allowed ...State) {
	s.pool.group.locked(func() {
		if !slices.Contains(allowed, s.state) {
			// A clone, so that only those who panic allocate.
			panic(fmt.Sprintf("pool: a slot that is %v was used as if it were %v", s.state, slices.Clone(allowed)))
		}
		transition()
		s.pool.group.serve()
	})
	s.pool.changed()
}
