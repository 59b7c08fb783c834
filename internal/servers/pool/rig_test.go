package pool

import (
	"fmt"
	"slices"
	"testing"
)

// rig is a group with connections that are numbered from 1, on a clock that only the test moves.
type rig struct {
	*Group[int]
	t     testing.TB
	clock Instant
	pools []*rigPool
	slots map[int]*Slot[int] // by the number of their connection
}

// rigPool is a pool that counts how often it says that it has changed.
type rigPool struct {
	*Pool[int]
	rig     *rig
	changes int
}

func newRig(t testing.TB, o Options, settings ...Settings) *rig {
	r := &rig{t: t, slots: make(map[int]*Slot[int])}
	o.Now = func() Instant { return r.clock }
	r.Group = NewGroup[int](o)
	for i, s := range settings {
		r.add(fmt.Sprintf("backend-%d", i), s)
	}
	return r
}

func (r *rig) add(name string, s Settings) *rigPool {
	p := &rigPool{rig: r}
	p.Pool = r.Add(name, s, func() { p.changes++ })
	r.pools = append(r.pools, p)
	return p
}

// capped are the settings of a pool that dials only for clients that wait.
func capped(limit int) Settings { return Settings{Cap: limit, Weight: 1} }

// dial takes a slot whether it is wanted or not.
func (p *rigPool) dial() *Slot[int] {
	p.rig.t.Helper()
	s, ok := p.ReserveTrial()
	if !ok {
		p.rig.t.Fatal("no room for another connection")
	}
	return s
}

// reserved takes a slot that must be wanted; otherwise the test ends with what is wrong.
func (p *rigPool) reserved(otherwise string) *Slot[int] {
	p.rig.t.Helper()
	s, ok := p.Reserve()
	if !ok {
		p.rig.t.Fatal(otherwise)
	}
	return s
}

// reservesNone fails if a slot is wanted.
func (p *rigPool) reservesNone(otherwise string) {
	p.rig.t.Helper()
	if _, ok := p.Reserve(); ok {
		p.rig.t.Error(otherwise)
	}
}

// probe takes a place for a probe.
func (p *rigPool) probe() (done func()) {
	p.rig.t.Helper()
	done, ok := p.ReserveProbe()
	if !ok {
		p.rig.t.Fatal("no room for a probe")
	}
	return done
}

// connect adds a connection.
func (p *rigPool) connect() *Slot[int] {
	p.rig.t.Helper()
	s := p.dial()
	p.rig.filled(s)
	return s
}

func (p *rigPool) fill(n int) {
	p.rig.t.Helper()
	for range n {
		p.connect()
	}
}

// lease adds connections and leases them, whatever the balance would choose.
func (p *rigPool) lease(n int) (leased []*Slot[int]) {
	p.rig.t.Helper()
	for range n {
		p.connect()
		p.rig.locked(func() { leased = append(leased, p.takeNewest(&p.base)) })
	}
	return leased
}

// expect compares the number of connections in each state: dialing, idle, leased, resetting, retiring.
func (p *rigPool) expect(want ...int) {
	p.rig.t.Helper()
	s := p.Stats()
	if got := []int{s.Dialing, s.Idle, s.Leased, s.Resetting, s.Retiring}; !slices.Equal(got, want) {
		p.rig.t.Errorf("dialing, idle, leased, resetting, retiring: %v; want %v", got, want)
	}
}

// filled ends the dialing of a connection well.
func (r *rig) filled(s *Slot[int]) {
	n := len(r.slots) + 1
	r.slots[n] = s
	s.Filled(n)
}

// locked calls f with the group's mutex held.
func (g *Group[C]) locked(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// giveBack, reset and discard end the lease of a connection as its holder does.
func giveBack[C any](s *Slot[C]) { s.Return(s.Sessions()) }

func reset[C any](s *Slot[C]) { s.Reset(s.Sessions()) }

func discard[C any](s *Slot[C], reason Reason) { s.Discard(s.Sessions(), reason) }

// lease leases a connection that must be there.
func (r *rig) lease() *Slot[int] {
	r.t.Helper()
	n, ok, err := r.Acquire(&Waiter[int]{})
	if !ok || err != nil {
		r.t.Fatalf("Acquire: %v, %v; want a connection", ok, err)
	}
	return r.slots[n]
}

// wait queues a client that must find nothing.
func (r *rig) wait() *Waiter[int] {
	r.t.Helper()
	w := &Waiter[int]{}
	if n, ok, err := r.Acquire(w); ok || err != nil {
		r.t.Fatalf("Acquire: connection %d, %v, %v; want to wait", n, ok, err)
	}
	return w
}

// handed takes the connection that a client must have been given.
func (r *rig) handed(w *Waiter[int]) *Slot[int] {
	r.t.Helper()
	select {
	case n := <-w.Ready():
		return r.slots[n]
	default:
		r.t.Fatal("the client was given no connection")
		return nil
	}
}

// waiting sees that none of these clients was given a connection.
func (r *rig) waiting(clients ...*Waiter[int]) {
	r.t.Helper()
	for _, w := range clients {
		if len(w.ready) > 0 {
			r.t.Errorf("client %d was given connection %d", w.position, <-w.ready)
		}
	}
	if got := r.Queue().Waiting; got < len(clients) {
		r.t.Errorf("%d clients wait; want at least %d", got, len(clients))
	}
}

// signalled returns the indices of the pools that said that they have changed since it was asked last.
func (r *rig) signalled() []int {
	found := []int{}
	for i, p := range r.pools {
		if p.changes > 0 {
			found = append(found, i)
		}
		p.changes = 0
	}
	return found
}

// expectSignals compares who was signalled by f.
func (r *rig) expectSignals(what string, want []int, f func()) {
	r.t.Helper()
	r.signalled()
	f()
	if got := r.signalled(); !slices.Equal(got, want) {
		r.t.Errorf("%s signalled the pools %v; want %v", what, got, want)
	}
}

// panics reports whether f does.
func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
