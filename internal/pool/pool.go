// Package pool keeps the book of a backend's connections: how many there are in which state, which of them is leased
// next, and that there are never more than the backend's cap. It does no I/O and never waits; its lock is held for a few
// instructions, never across a call of anybody else's code.
//
// A connection's entry in the book is its [Slot]. It is reserved before dialing, so that the cap holds at every instant,
// and given up when the connection's socket has been closed:
//
//	Reserve -> dialing -> Filled -> idle -> Lease -> leased -> Reset -> resetting -> Return -> idle ...
//	                                  any of them -> Retire -> retiring -> Gone
package pool

import (
	"fmt"
	"slices"
	"sync"
)

// State is what a slot's connection is doing.
type State uint8

// The states of a slot.
const (
	Dialing State = iota
	Idle
	Leased
	Resetting
	Retiring
	Gone
	states = int(Gone)
)

// String returns the state's name as it is used in statistics and logs.
func (s State) String() string {
	return [...]string{"dialing", "idle", "leased", "resetting", "retiring", "gone"}[s]
}

// Slot is a connection's entry in the book. It belongs to one pool; its methods may be called from any goroutine.
type Slot[C any] struct {
	pool *Pool[C]

	// Guarded by the pool's mutex.
	state        State
	conn         C
	older, newer *Slot[C] // neighbours in the order of idle slots
	sessions     uint64
}

// Pool is the book of one backend's connections. Its methods may be called from any goroutine.
type Pool[C any] struct {
	// changed is called, outside the lock, whenever the number of slots wanted may have changed. Static.
	changed func()

	mu     sync.Mutex
	limit  int
	counts [states]int
	oldest *Slot[C] // the idle slot that was used longest ago
	newest *Slot[C] // the idle slot that was used last, and is leased next
	totals Totals
}

// Totals counts since the pool was made.
type Totals struct {
	Dialed      uint64 `json:"dialed"`       // connections established
	DialFailed  uint64 `json:"dial_failed"`  // slots given up before a connection was established
	Leased      uint64 `json:"leased"`       // leases begun
	Returned    uint64 `json:"returned"`     // leases that ended with the connection idle again
	Discarded   uint64 `json:"discarded"`    // leases that ended with the connection retired
	RetiredIdle uint64 `json:"retired_idle"` // connections retired while idle
}

// Stats is the book at one instant.
type Stats struct {
	Cap       int    `json:"cap"`
	Dialing   int    `json:"dialing"`
	Idle      int    `json:"idle"`
	Leased    int    `json:"leased"`
	Resetting int    `json:"resetting"`
	Retiring  int    `json:"retiring"`
	Totals    Totals `json:"totals"`
}

// Used returns how many of the backend's connections exist or are about to.
func (s Stats) Used() int { return s.Dialing + s.Idle + s.Leased + s.Resetting + s.Retiring }

// New returns an empty pool for at most limit connections. changed is called whenever a slot was leased, retired or given
// up; it must not block.
func New[C any](limit int, changed func()) *Pool[C] {
	return &Pool[C]{limit: limit, changed: changed}
}

// Stats returns the book as it stands.
func (p *Pool[C]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Cap: p.limit, Dialing: p.counts[Dialing], Idle: p.counts[Idle], Leased: p.counts[Leased],
		Resetting: p.counts[Resetting], Retiring: p.counts[Retiring], Totals: p.totals,
	}
}

// Reserve takes a slot for a connection that is about to be dialed, if that keeps the pool within its cap and within
// what is wanted: warm connections beside those that serve sessions. A connection that is being closed still counts
// against the cap, since its server may still hold it.
func (p *Pool[C]) Reserve(warm int) (*Slot[C], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready, used := p.counts[Dialing]+p.counts[Idle], p.counts[Leased]+p.counts[Resetting]
	if ready >= warm || ready+used+p.counts[Retiring] >= p.limit {
		return nil, false
	}
	p.counts[Dialing]++
	return &Slot[C]{pool: p, state: Dialing}, true
}

// Lease takes the idle connection that was used last, if there is one.
func (p *Pool[C]) Lease() (conn C, ok bool) {
	p.mu.Lock()
	s := p.newest
	if s == nil {
		p.mu.Unlock()
		return conn, false
	}
	p.unlink(s)
	s.sessions++
	p.totals.Leased++
	p.move(s, Leased)
	conn = s.conn
	p.mu.Unlock()
	p.changed()
	return conn, true
}

// Load returns the share of the cap that is in use by sessions, and whether a connection is idle.
func (p *Pool[C]) Load() (share float64, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.counts[Leased]+p.counts[Resetting]) / float64(p.limit), p.newest != nil
}

// RetireIdle takes the idle connection that was used longest ago out of service, if there is one. Its slot is retiring:
// the caller closes the connection and then calls Gone.
func (p *Pool[C]) RetireIdle() (conn C, ok bool) {
	p.mu.Lock()
	s := p.oldest
	if s == nil {
		p.mu.Unlock()
		return conn, false
	}
	p.retire(s)
	conn = s.conn
	p.mu.Unlock()
	p.changed()
	return conn, true
}

// Filled puts the connection that was dialed into the slot, idle.
func (s *Slot[C]) Filled(conn C) {
	s.change(func() {
		s.conn = conn
		s.pool.totals.Dialed++
		s.pool.link(s)
		s.pool.move(s, Idle)
	}, Dialing)
}

// Failed gives the slot up, because the connection could not be established.
func (s *Slot[C]) Failed() {
	s.change(func() {
		s.pool.totals.DialFailed++
		s.pool.move(s, Gone)
	}, Dialing)
}

// Reset notes that the lease is over but that the connection is not clean yet.
func (s *Slot[C]) Reset() {
	s.change(func() { s.pool.move(s, Resetting) }, Leased)
}

// Return ends the lease: the connection is clean, and idle.
func (s *Slot[C]) Return() {
	s.change(func() {
		s.pool.totals.Returned++
		s.pool.link(s)
		s.pool.move(s, Idle)
	}, Leased, Resetting)
}

// Discard ends the lease: the connection is retired. The caller closes it and then calls Gone.
func (s *Slot[C]) Discard() {
	s.change(func() { s.pool.retire(s) }, Leased, Resetting)
}

// Withdraw retires the connection if it is idle, and returns false when it is leased: then it is up to the lease's
// holder. The caller closes the connection and then calls Gone.
func (s *Slot[C]) Withdraw() bool {
	s.pool.mu.Lock()
	if s.state != Idle {
		s.pool.mu.Unlock()
		return false
	}
	s.pool.retire(s)
	s.pool.mu.Unlock()
	s.pool.changed()
	return true
}

// Gone gives the slot up after its retired connection was closed.
func (s *Slot[C]) Gone() {
	s.change(func() { s.pool.move(s, Gone) }, Retiring)
}

// State returns what the connection is doing.
func (s *Slot[C]) State() State {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.state
}

// Sessions returns how many sessions the connection has served, the present one included.
func (s *Slot[C]) Sessions() uint64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.sessions
}

// change makes a transition of the slot, which must be in one of the allowed states: its holder used it after its end
// otherwise, and would corrupt the book. That is a mistake in the program, and it panics.
func (s *Slot[C]) change(transition func(), allowed ...State) {
	s.pool.locked(func() {
		if !slices.Contains(allowed, s.state) {
			// A clone, so that only those who panic allocate.
			panic(fmt.Sprintf("pool: a slot that is %v was used as if it were %v", s.state, slices.Clone(allowed)))
		}
		transition()
	})
	s.pool.changed()
}

// locked calls f with the mutex held, and releases it even when f panics.
func (p *Pool[C]) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// The functions below are called with the mutex held.

func (p *Pool[C]) move(s *Slot[C], to State) {
	p.counts[s.state]--
	s.state = to
	if to != Gone {
		p.counts[to]++
	}
}

// retire moves a slot that is idle, leased or resetting to retiring.
func (p *Pool[C]) retire(s *Slot[C]) {
	if s.state == Idle {
		p.unlink(s)
		p.totals.RetiredIdle++
	} else {
		p.totals.Discarded++
	}
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
