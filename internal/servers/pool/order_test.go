package pool

import "testing"

// The connection that was used last is leased next, so that those used long ago can be retired.
func TestOrder(t *testing.T) {
	r := newRig(t, Options{}, capped(5))
	p := r.pools[0]
	p.fill(5)
	expect := func(what string, got *Slot[int], want int) {
		t.Helper()
		if got != r.slots[want] {
			t.Errorf("%s connection %d; want %d", what, got.conn, want)
		}
	}
	oldest := func(want int) {
		t.Helper()
		if n, ok := p.RetireOldest(Surplus); !ok || n != want {
			t.Errorf("retired %d, %v; want %d", n, ok, want)
		}
	}
	withdraw := func(n int) {
		t.Helper()
		if !r.slots[n].Withdraw(Lost) {
			t.Errorf("%d is idle, and was not withdrawn", n)
		}
	}
	for n := 5; n > 2; n-- {
		expect("leased", r.lease(), n)
	}
	giveBack(r.slots[4])
	reset(r.slots[5])
	giveBack(r.slots[5])
	// From the oldest: 1 2 4 5.
	withdraw(2) // from the middle
	oldest(1)
	giveBack(r.slots[3])
	withdraw(3) // the newest
	withdraw(4) // the oldest
	expect("leased", r.lease(), 5)
	if n, ok := p.RetireOldest(Surplus); ok {
		t.Errorf("retired %d from an empty pool", n)
	}
	if n, ok, err := r.Acquire(&Waiter[int]{}); ok || err != ErrNoQueue {
		t.Errorf("leased %d from an empty pool, %v", n, err)
	}
	giveBack(r.slots[5]) // an empty list can be begun again
	oldest(5)
}

// Each retirement is counted by its reason, whether a lease ended with it or not, and retirements add up.
func TestReasonsAreCounted(t *testing.T) {
	r := newRig(t, Options{}, capped(1))
	p := r.pools[0]
	want := Reasons{}
	for reason := range Reason(reasons) {
		for name, retire := range map[string]func(){
			"Discard": func() { discard(p.lease(1)[0], reason) },
			"Discard when resetting": func() {
				s := p.lease(1)[0]
				reset(s)
				discard(s, reason)
			},
			"Withdraw":     func() { p.connect().Withdraw(reason) },
			"RetireOldest": func() { p.fill(1); p.RetireOldest(reason) },
		} {
			retire()
			want[reason]++
			totals := p.Stats().Totals
			if totals.Reasons != want {
				t.Errorf("%s for %v: %v; want %v", name, reason, totals.Reasons, want)
			}
			if totals.Reasons.Sum() != totals.Discarded+totals.RetiredIdle {
				t.Errorf("retirements do not add up: %+v", totals)
			}
			r.slots[len(r.slots)].Gone()
		}
	}
}

// changed may be told of a change that another goroutine makes, and looks at the books, so it is called without the lock.
func TestChangedMayUseTheGroup(t *testing.T) {
	g := NewGroup[int](Options{Queue: 1})
	var p *Pool[int]
	calls := 0
	p = g.Add("a", Settings{Cap: 2, Weight: 1}, func() { p.Stats(); g.Queue(); calls++ })
	other := g.Add("b", Settings{Cap: 1, Weight: 1}, func() { p.Stats(); calls++ })
	other.SetMode(Disabled)
	signals := func(name string, f func()) {
		t.Helper()
		before := calls
		f()
		if calls == before {
			t.Errorf("%s told of nothing to do", name)
		}
	}
	reserve := func() *Slot[int] { s, _ := p.ReserveTrial(); return s }
	s, more := reserve(), reserve()
	signals("Filled", func() { s.Filled(1) })
	signals("Filled", func() { more.Filled(2) })
	signals("Acquire", func() { _, _, _ = g.Acquire(&Waiter[int]{}) })
	signals("Return", func() { giveBack(more) })
	signals("Withdraw", func() { s.Withdraw(Lost) })
	signals("Gone", func() { s.Gone() })
	s = reserve()
	signals("Failed", func() { s.Failed() })
	s = reserve()
	signals("Abandoned", func() { s.Abandoned() })
	reserve().Filled(3)
	signals("RetireOldest", func() { p.RetireOldest(Aged) })
	signals("SetUsable", func() { p.SetUsable(false) })
	signals("Acquire, to wait,", func() { other.SetMode(Enabled); _, _, _ = g.Acquire(&Waiter[int]{}) })
	signals("Remove", func() { g.Remove(p) })
}
