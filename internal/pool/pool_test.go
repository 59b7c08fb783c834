package pool

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// rig is a pool of numbered connections that counts how often it says that it has changed.
type rig struct {
	*Pool[int]
	t       testing.TB
	changes atomic.Int64
	slots   map[int]*Slot[int]
}

func newRig(t testing.TB, limit int) *rig {
	r := &rig{t: t, slots: make(map[int]*Slot[int])}
	r.Pool = New[int](limit, func() { r.changes.Add(1) })
	return r
}

// fill adds idle connections with these numbers.
func (r *rig) fill(numbers ...int) {
	r.t.Helper()
	for _, n := range numbers {
		s, ok := r.Reserve(r.Stats().Cap)
		if !ok {
			r.t.Fatalf("no room for connection %d", n)
		}
		s.Filled(n)
		r.slots[n] = s
	}
}

func (r *rig) mustLease() *Slot[int] {
	r.t.Helper()
	n, ok := r.Lease()
	if !ok {
		r.t.Fatal("nothing to lease")
	}
	return r.slots[n]
}

func (r *rig) expect(want Stats) {
	r.t.Helper()
	want.Cap = r.limit
	if got := r.Stats(); got != want {
		r.t.Errorf("stats %+v;\nwant  %+v", got, want)
	}
}

// Each transition takes a slot to the next state, counts what it has to count, and tells whoever fills the pool.
func TestTransitions(t *testing.T) {
	r := newRig(t, 1)
	step := func(name string, state State, want Stats, f func()) {
		t.Helper()
		before := r.changes.Load()
		f()
		if r.slots[1] != nil && r.slots[1].State() != state {
			t.Errorf("after %s: %v; want %v", name, r.slots[1].State(), state)
		}
		r.expect(want)
		if name != "Reserve" && r.changes.Load() != before+1 {
			t.Errorf("%s told of %d changes; want 1", name, r.changes.Load()-before)
		}
	}
	reserve := func() {
		s, ok := r.Reserve(1)
		if !ok {
			t.Fatal("no room")
		}
		r.slots[1] = s
	}
	totals := Totals{}
	step("Reserve", Dialing, Stats{Dialing: 1, Totals: totals}, reserve)
	totals.DialFailed++
	step("Failed", Gone, Stats{Totals: totals}, func() { r.slots[1].Failed() })
	step("Reserve", Dialing, Stats{Dialing: 1, Totals: totals}, reserve)
	totals.Dialed++
	step("Filled", Idle, Stats{Idle: 1, Totals: totals}, func() { r.slots[1].Filled(1) })
	totals.Leased++
	step("Lease", Leased, Stats{Leased: 1, Totals: totals}, func() { r.mustLease() })
	totals.Returned++
	step("Return", Idle, Stats{Idle: 1, Totals: totals}, func() { r.slots[1].Return() })
	totals.Leased++
	step("Lease", Leased, Stats{Leased: 1, Totals: totals}, func() { r.mustLease() })
	step("Reset", Resetting, Stats{Resetting: 1, Totals: totals}, func() { r.slots[1].Reset() })
	totals.Returned++
	step("Return", Idle, Stats{Idle: 1, Totals: totals}, func() { r.slots[1].Return() })
	totals.Leased++
	step("Lease", Leased, Stats{Leased: 1, Totals: totals}, func() { r.mustLease() })
	totals.Discarded++
	step("Discard", Retiring, Stats{Retiring: 1, Totals: totals}, func() { r.slots[1].Discard() })
	step("Gone", Gone, Stats{Totals: totals}, func() { r.slots[1].Gone() })
	if n := r.slots[1].Sessions(); n != 3 {
		t.Errorf("%d sessions; want 3", n)
	}

	step("Reserve", Dialing, Stats{Dialing: 1, Totals: totals}, reserve)
	totals.Dialed++
	step("Filled", Idle, Stats{Idle: 1, Totals: totals}, func() { r.slots[1].Filled(1) })
	totals.Leased++
	step("Lease", Leased, Stats{Leased: 1, Totals: totals}, func() { r.mustLease() })
	step("Reset", Resetting, Stats{Resetting: 1, Totals: totals}, func() { r.slots[1].Reset() })
	totals.Discarded++
	step("Discard", Retiring, Stats{Retiring: 1, Totals: totals}, func() { r.slots[1].Discard() })
	step("Gone", Gone, Stats{Totals: totals}, func() { r.slots[1].Gone() })

	for name, retire := range map[string]func() bool{
		"Withdraw":   func() bool { return r.slots[1].Withdraw() },
		"RetireIdle": func() bool { n, ok := r.RetireIdle(); return ok && n == 1 },
	} {
		step("Reserve", Dialing, Stats{Dialing: 1, Totals: totals}, reserve)
		totals.Dialed++
		step("Filled", Idle, Stats{Idle: 1, Totals: totals}, func() { r.slots[1].Filled(1) })
		totals.RetiredIdle++
		step(name, Retiring, Stats{Retiring: 1, Totals: totals}, func() {
			if !retire() {
				t.Errorf("%s found nothing", name)
			}
		})
		step("Gone", Gone, Stats{Totals: totals}, func() { r.slots[1].Gone() })
	}
}

// The connection used last is leased next, so that those used long ago can be retired.
func TestOrder(t *testing.T) {
	r := newRig(t, 5)
	r.fill(1, 2, 3, 4, 5)
	lease := func(want int) {
		t.Helper()
		if n, ok := r.Lease(); !ok || n != want {
			t.Errorf("leased %d, %v; want %d", n, ok, want)
		}
	}
	lease(5)
	lease(4)
	lease(3)
	r.slots[4].Return()
	r.slots[5].Reset()
	r.slots[5].Return()
	// From the oldest: 1 2 4 5.
	if !r.slots[2].Withdraw() { // from the middle
		t.Error("2 is idle, and was not withdrawn")
	}
	if n, ok := r.RetireIdle(); !ok || n != 1 {
		t.Errorf("retired %d, %v; want 1", n, ok)
	}
	r.slots[3].Return()
	if !r.slots[3].Withdraw() { // the newest
		t.Error("3 is idle, and was not withdrawn")
	}
	lease(5)
	lease(4)
	if n, ok := r.Lease(); ok {
		t.Errorf("leased %d from an empty pool", n)
	}
	if n, ok := r.RetireIdle(); ok {
		t.Errorf("retired %d from an empty pool", n)
	}
	if r.slots[4].Withdraw() || r.slots[3].Withdraw() {
		t.Error("withdrew what is not idle")
	}
}

// Room is for warm connections beside those in use, within the cap; a connection that is being closed takes a place.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		limit, warm int
		before      [states]int
		want        bool
	}{
		{limit: 4, warm: 2, want: true},
		{limit: 4, warm: 0, want: false},
		{limit: 4, warm: 2, before: [states]int{Dialing: 1}, want: true},
		{limit: 4, warm: 2, before: [states]int{Dialing: 1, Idle: 1}, want: false},
		{limit: 4, warm: 2, before: [states]int{Leased: 2, Idle: 1}, want: true},
		{limit: 4, warm: 2, before: [states]int{Leased: 2, Idle: 2}, want: false},
		{limit: 4, warm: 2, before: [states]int{Leased: 3, Idle: 1}, want: false},
		{limit: 4, warm: 4, before: [states]int{Leased: 3}, want: true},
		{limit: 4, warm: 4, before: [states]int{Leased: 4}, want: false},
		{limit: 4, warm: 4, before: [states]int{Resetting: 4}, want: false},
		{limit: 4, warm: 4, before: [states]int{Retiring: 4}, want: false},
		{limit: 4, warm: 4, before: [states]int{Retiring: 1, Resetting: 1, Leased: 1}, want: true},
		{limit: 4, warm: 4, before: [states]int{Retiring: 1, Resetting: 1, Leased: 1, Dialing: 1}, want: false},
		{limit: 4, warm: 9, before: [states]int{Dialing: 4}, want: false},
	} {
		r := newRig(t, c.limit)
		number := 0
		for state := State(0); int(state) < states; state++ {
			for range c.before[state] {
				number++
				bring(r, number, state)
			}
		}
		s := r.Stats()
		if got := [states]int{s.Dialing, s.Idle, s.Leased, s.Resetting, s.Retiring}; got != c.before {
			t.Fatalf("before: %v; want %v", got, c.before)
		}
		if _, got := r.Reserve(c.warm); got != c.want {
			t.Errorf("cap %d, warm %d, %+v: %v; want %v", c.limit, c.warm, s, got, c.want)
		}
	}
}

// bring makes a slot of that state.
func bring(r *rig, number int, state State) {
	r.t.Helper()
	s, ok := r.Reserve(r.limit)
	if !ok {
		r.t.Fatalf("no room for connection %d", number)
	}
	r.slots[number] = s
	if state == Dialing {
		return
	}
	s.Filled(number)
	switch state {
	case Leased:
		r.mustLease()
	case Resetting:
		r.mustLease().Reset()
	case Retiring:
		s.Withdraw()
	case Gone:
		s.Withdraw()
		s.Gone()
	}
}

// Using a slot in a way that its state does not allow is a mistake in the program. It panics, changes nothing, and the pool
// can still be used.
func TestMisusePanics(t *testing.T) {
	methods := []struct {
		name    string
		call    func(*Slot[int])
		allowed []State
	}{
		{"Filled", func(s *Slot[int]) { s.Filled(9) }, []State{Dialing}},
		{"Failed", func(s *Slot[int]) { s.Failed() }, []State{Dialing}},
		{"Reset", func(s *Slot[int]) { s.Reset() }, []State{Leased}},
		{"Return", func(s *Slot[int]) { s.Return() }, []State{Leased, Resetting}},
		{"Discard", func(s *Slot[int]) { s.Discard() }, []State{Leased, Resetting}},
		{"Gone", func(s *Slot[int]) { s.Gone() }, []State{Retiring}},
	}
	for state := Dialing; state <= Gone; state++ {
		for _, m := range methods {
			t.Run(fmt.Sprintf("%s of a slot that is %v", m.name, state), func(t *testing.T) {
				r := newRig(t, 3)
				bring(r, 1, state)
				before := r.Stats()
				panicked := func() (panicked bool) {
					defer func() { panicked = recover() != nil }()
					m.call(r.slots[1])
					return
				}()
				if want := !slices.Contains(m.allowed, state); panicked != want {
					t.Fatalf("panicked: %v; want %v", panicked, want)
				}
				if panicked {
					r.expect(before)
					if got := r.slots[1].State(); got != state {
						t.Errorf("the slot is %v now", got)
					}
				}
				for r.Stats().Idle > 0 {
					r.RetireIdle()
				}
				r.fill(2)
				if s := r.mustLease(); s != r.slots[2] {
					t.Error("leased another connection")
				}
				r.slots[2].Return()
			})
		}
	}
}

// changed may be told of a change that another goroutine makes of the pool, so it is called without the lock.
func TestChangedMayUseThePool(t *testing.T) {
	var p *Pool[int]
	calls := 0
	p = New[int](2, func() { p.Stats(); p.Load(); calls++ })
	s, _ := p.Reserve(1)
	s.Filled(1)
	p.Lease()
	s.Return()
	s.Withdraw()
	s.Gone()
	s, _ = p.Reserve(1)
	s.Filled(2)
	p.RetireIdle()
	if calls != 7 {
		t.Errorf("called %d times; want 7", calls)
	}
}

func TestLoad(t *testing.T) {
	r := newRig(t, 4)
	check := func(share float64, idle bool) {
		t.Helper()
		if s, i := r.Load(); s != share || i != idle {
			t.Errorf("load %v, %v; want %v, %v", s, i, share, idle)
		}
	}
	check(0, false)
	r.fill(1, 2)
	check(0, true)
	r.mustLease()
	check(0.25, true)
	r.mustLease().Reset()
	check(0.5, false)
	r.slots[2].Discard()
	r.slots[1].Discard()
	check(0, false)
}

// Goroutines that lease, return, discard, withdraw and dial at once: nobody gets a connection that another has, the cap
// holds at every look, and the books balance.
func TestConcurrentUse(t *testing.T) {
	const limit, workers, rounds = 8, 8, 2000
	type connection struct {
		slot  *Slot[*connection]
		users atomic.Int32
	}
	var p *Pool[*connection]
	wanted := make(chan struct{}, 1)
	p = New[*connection](limit, func() {
		select {
		case wanted <- struct{}{}:
		default:
		}
	})
	quit := make(chan struct{})
	var others, users sync.WaitGroup
	others.Go(func() { // dials
		for n := 0; ; n++ {
			for s, ok := p.Reserve(limit); ok; s, ok = p.Reserve(limit) {
				if n++; n%7 == 0 {
					s.Failed()
				} else {
					s.Filled(&connection{slot: s})
				}
			}
			select {
			case <-wanted:
			case <-quit:
				return
			}
		}
	})
	others.Go(func() { // looks, and retires what was used long ago
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			default:
			}
			s := p.Stats()
			if s.Used() > limit || min(s.Dialing, s.Idle, s.Leased, s.Resetting, s.Retiring) < 0 {
				t.Errorf("stats: %+v", s)
				return
			}
			runtime.Gosched()
			if n%50 != 0 {
				continue
			}
			if c, ok := p.RetireIdle(); ok {
				c.slot.Gone()
			}
		}
	})
	for w := range workers {
		users.Go(func() {
			for n := 0; n < rounds; {
				c, ok := p.Lease()
				if !ok {
					runtime.Gosched()
					continue
				}
				n++
				if c.users.Add(1) != 1 {
					t.Error("a connection was leased twice")
				}
				if c.slot.Withdraw() {
					t.Error("a leased connection was withdrawn")
				}
				c.users.Add(-1)
				switch (n + w) % 5 {
				case 0:
					c.slot.Discard()
					c.slot.Gone()
				case 1:
					c.slot.Reset()
					c.slot.Discard()
					c.slot.Gone()
				case 2:
					c.slot.Reset()
					c.slot.Return()
				default:
					c.slot.Return()
				}
			}
		})
	}
	users.Wait()
	close(quit)
	others.Wait()
	s := p.Stats()
	if s.Leased != 0 || s.Resetting != 0 || s.Retiring != 0 || s.Dialing != 0 {
		t.Errorf("at the end: %+v", s)
	}
	totals := s.Totals
	if totals.Leased != workers*rounds || totals.Leased != totals.Returned+totals.Discarded {
		t.Errorf("leases: %+v", totals)
	}
	if totals.Dialed != totals.Discarded+totals.RetiredIdle+uint64(s.Idle) {
		t.Errorf("connections: %+v with %d idle", totals, s.Idle)
	}
}
