package pool

import (
	"fmt"
	"slices"
	"testing"
)

// Each transition takes a slot to the next state and counts what it has to count and nothing else; those that leave too few
// connections wake the goroutine that fills the pool.
func TestTransitions(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 1, Warm: 1, Weight: 1})
	p := r.pools[0]
	totals := Totals{}
	var s *Slot[int]
	step := func(name string, state State, f func(), counted ...*uint64) {
		t.Helper()
		p.changes = 0
		f()
		for _, c := range counted {
			*c++
		}
		if got := s.State(); got != state {
			t.Errorf("after %s: %v; want %v", name, got, state)
		}
		want := make([]int, states+1)
		want[state] = 1
		p.expect(want[:Gone]...)
		if got := p.Stats().Totals; got != totals {
			t.Errorf("after %s: %+v;\nwant %+v", name, got, totals)
		}
		if told := p.changes > 0; told != (state == Gone) { // one is to be warm, and one is all that there may be
			t.Errorf("%s signalled: %v", name, told)
		}
	}
	reserve := func() {
		t.Helper()
		step("Reserve", Dialing, func() {
			var ok bool
			if s, ok = p.Reserve(); !ok {
				t.Fatal("no room")
			}
		})
	}
	connect := func() {
		t.Helper()
		reserve()
		step("Filled", Idle, func() { r.filled(s) }, &totals.Dialed)
	}
	acquire := func() { t.Helper(); step("Acquire", Leased, func() { r.lease() }, &totals.Leased) }
	reset := func() { t.Helper(); step("Reset", Resetting, func() { reset(s) }) }
	giveBack := func() { t.Helper(); step("Return", Idle, func() { giveBack(s) }, &totals.Returned) }
	discard := func(why Reason) {
		t.Helper()
		step("Discard", Retiring, func() { discard(s, why) }, &totals.Discarded, &totals.Reasons[why])
		step("Gone", Gone, func() { s.Gone() })
	}

	reserve()
	step("Failed", Gone, func() { s.Failed() }, &totals.DialFailed)
	reserve()
	step("Abandoned", Gone, func() { s.Abandoned() })

	connect()
	acquire()
	giveBack()
	acquire()
	reset()
	giveBack()
	acquire()
	discard(Cut)
	if n := s.Sessions(); n != 3 {
		t.Errorf("%d sessions; want 3", n)
	}

	connect()
	acquire()
	reset()
	discard(ResetFailed)

	for name, retire := range map[string]func(Reason) bool{
		"Withdraw":     func(why Reason) bool { return s.Withdraw(why) },
		"RetireOldest": func(why Reason) bool { n, ok := p.RetireOldest(why); return ok && r.slots[n] == s },
	} {
		connect()
		step(name, Retiring, func() {
			if !retire(Aged) {
				t.Errorf("%s found nothing", name)
			}
		}, &totals.RetiredIdle, &totals.Reasons[Aged])
		step("Gone", Gone, func() { s.Gone() })
	}
}

// Using a slot in a way that its state does not allow is an error in the program. It panics, changes nothing, wakes no
// goroutine, and the pool can still be used.
func TestMisusePanics(t *testing.T) {
	methods := []struct {
		name    string
		call    func(*Slot[int])
		allowed []State
	}{
		{"Filled", func(s *Slot[int]) { s.Filled(9) }, []State{Dialing}},
		{"Failed", func(s *Slot[int]) { s.Failed() }, []State{Dialing}},
		{"Abandoned", func(s *Slot[int]) { s.Abandoned() }, []State{Dialing}},
		{"Reset", func(s *Slot[int]) { reset(s) }, []State{Leased}},
		{"Return", func(s *Slot[int]) { giveBack(s) }, []State{Leased, Resetting}},
		{"Discard", func(s *Slot[int]) { discard(s, Lost) }, []State{Leased, Resetting}},
		{"Gone", func(s *Slot[int]) { s.Gone() }, []State{Retiring}},
	}
	for state := Dialing; state <= Gone; state++ {
		for _, m := range methods {
			t.Run(fmt.Sprintf("%s of a slot that is %v", m.name, state), func(t *testing.T) {
				r := newRig(t, Options{}, capped(3))
				p := r.pools[0]
				s := p.bring(state)
				before := p.Stats()
				p.changes = 0
				panicked := panics(func() { m.call(s) })
				if want := !slices.Contains(m.allowed, state); panicked != want {
					t.Fatalf("panicked: %v; want %v", panicked, want)
				}
				if panicked && (p.Stats() != before || s.State() != state || p.changes > 0) {
					t.Errorf("the slot is %v now, %d signals, stats %+v", s.State(), p.changes, p.Stats())
				}
				other := p.connect()
				if r.lease() != other {
					t.Error("leased another connection")
				}
				giveBack(other)
			})
		}
	}
}

// bring makes a slot of that state.
func (p *rigPool) bring(state State) *Slot[int] {
	p.rig.t.Helper()
	if state == Dialing {
		return p.dial()
	}
	if state == Idle {
		return p.connect()
	}
	s := p.lease(1)[0]
	switch state {
	case Resetting:
		reset(s)
	case Retiring:
		discard(s, Lost)
	case Gone:
		discard(s, Lost)
		s.Gone()
	}
	return s
}

// A connection is withdrawn when it is idle, and only then: the holder of its lease closes it otherwise.
func TestWithdraw(t *testing.T) {
	for state := Dialing; state <= Gone; state++ {
		r := newRig(t, Options{}, capped(1))
		p := r.pools[0]
		s := p.bring(state)
		before := p.Stats()
		p.changes = 0
		got := s.Withdraw(Closed)
		if want := state == Idle; got != want {
			t.Errorf("Withdraw of a slot that is %v: %v; want %v", state, got, want)
		}
		if !got && (p.Stats() != before || p.changes > 0) {
			t.Errorf("Withdraw of a slot that is %v: %d signals, %+v; before %+v", state, p.changes, p.Stats(), before)
		}
	}
}

// Ending a lease a second time, after the connection was leased to another session, panics, and that session keeps it.
func TestEndedLease(t *testing.T) {
	for name, end := range map[string]func(s *Slot[int], lease uint64){
		"Reset":   func(s *Slot[int], lease uint64) { s.Reset(lease) },
		"Return":  func(s *Slot[int], lease uint64) { s.Return(lease) },
		"Discard": func(s *Slot[int], lease uint64) { s.Discard(lease, Lost) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Queue: 1}, capped(1))
			p := r.pools[0]
			s := p.connect()
			first := &Waiter[int]{}
			if _, ok, err := r.Acquire(first); !ok {
				t.Fatal(err)
			}
			second := r.wait()
			s.Return(first.Lease())
			r.handed(second)
			before := p.Stats()
			if !panics(func() { end(s, first.Lease()) }) {
				t.Error("the end of a lease that had ended went well")
			}
			if p.Stats() != before || s.State() != Leased {
				t.Errorf("the connection is %v, stats %+v; before %+v", s.State(), p.Stats(), before)
			}
			end(s, second.Lease())
			if s.State() == Leased {
				t.Error("the holder could not end its lease")
			}
		})
	}
}
