package pool

import (
	"math"
	"testing"
)

// Room is for warm connections beside those in use, within the cap; a connection that is being closed takes a place. A trial
// needs no other reason than the room.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		limit, warm int
		before      [states]int
		want, trial bool
	}{
		{limit: 4, warm: 2, want: true, trial: true},
		{limit: 4, warm: 0, want: false, trial: true},
		{limit: 4, warm: 2, before: [states]int{Dialing: 1}, want: true, trial: true},
		{limit: 4, warm: 2, before: [states]int{Dialing: 1, Idle: 1}, want: false, trial: true},
		{limit: 4, warm: 2, before: [states]int{Leased: 2, Idle: 1}, want: true, trial: true},
		{limit: 4, warm: 2, before: [states]int{Leased: 2, Idle: 2}, want: false, trial: false},
		{limit: 4, warm: 2, before: [states]int{Leased: 3, Idle: 1}, want: false, trial: false},
		{limit: 4, warm: 4, before: [states]int{Leased: 3}, want: true, trial: true},
		{limit: 4, warm: 4, before: [states]int{Leased: 4}, want: false, trial: false},
		{limit: 4, warm: 4, before: [states]int{Resetting: 4}, want: false, trial: false},
		{limit: 4, warm: 4, before: [states]int{Retiring: 4}, want: false, trial: false},
		{limit: 4, warm: 4, before: [states]int{Retiring: 1, Resetting: 1, Leased: 1}, want: true, trial: true},
		{limit: 4, warm: 4, before: [states]int{Retiring: 1, Resetting: 1, Leased: 1, Dialing: 1}, want: false, trial: false},
		{limit: 4, warm: 9, before: [states]int{Dialing: 4}, want: false, trial: false},
	} {
		for _, trial := range []bool{false, true} {
			r := newRig(t, Options{}, Settings{Cap: c.limit, Warm: c.warm, Weight: 1})
			p := r.pools[0]
			for state := Gone; state > 0; state-- { // idle ones last: they would be leased
				for range c.before[state-1] {
					p.bring(state - 1)
				}
			}
			p.expect(c.before[:]...)
			reserve, want := p.Reserve, c.want
			if trial {
				reserve, want = p.ReserveTrial, c.trial
			}
			s, got := reserve()
			if got != want {
				t.Errorf("cap %d, warm %d, %v: %v; want %v (trial: %v)", c.limit, c.warm, c.before, got, want, trial)
			}
			if got != (s != nil) {
				t.Errorf("%v with the slot %v", got, s)
			}
		}
	}
}

// A change of the settings is in force, and shown, at once.
func TestSet(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 2, Warm: 2, Weight: 1})
	p := r.pools[0]
	p.fill(2)
	if _, ok := p.ReserveTrial(); ok {
		t.Error("a third of two")
	}
	p.Set(Settings{Cap: 4, Warm: 3, Weight: 0.5})
	p.SetRamp(0.25)
	p.SetUsable(false)
	p.SetMode(Draining)
	want := Stats{
		State: "draining", Cap: 4, Ceiling: 4, Limit: 4, Warm: 3, Weight: 0.5, Ramp: 0.25, Idle: 2,
		Totals: Totals{Dialed: 2},
	}
	got := p.Stats()
	if got != want {
		t.Errorf("stats %+v;\nwant %+v", got, want)
	}
	if got.Used() != 2 {
		t.Errorf("%d used; want 2", got.Used())
	}
	p.SetMode(Enabled)
	if _, ok := p.Reserve(); !ok {
		t.Error("one more is to be warm, and was not reserved")
	}
	p.reservesNone("reserved a fourth where three are to be warm")
}

// After the cap was lowered nothing is added until it holds again. The idle connections beyond it are surplus, however
// short a time they have been idle, and those in use are not touched.
func TestCapLowered(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 6, Warm: 6, Weight: 1})
	p := r.pools[0]
	used := p.lease(2)
	p.fill(3)
	dialing := p.dial()
	p.Set(Settings{Cap: 4, Warm: 4, Weight: 1})
	surplus := func(want bool) {
		t.Helper()
		n, ok := p.RetireSurplus(math.MinInt64)
		if ok != want {
			t.Errorf("retired %d, %v; want %v", n, ok, want)
		}
	}
	room := func(want bool) {
		t.Helper()
		s, ok := p.ReserveTrial()
		if ok {
			s.Abandoned()
		}
		if ok != want {
			t.Errorf("room for a trial: %v; want %v", ok, want)
		}
	}
	surplus(true)
	surplus(true)
	surplus(false)
	p.expect(1, 1, 2, 0, 2)
	if got := p.Stats().Totals.Reasons[Surplus]; got != 2 {
		t.Errorf("%d retired as surplus; want 2", got)
	}
	room(false)
	r.slots[3].Gone() // 3 and 4 were idle longest
	room(false)
	r.slots[4].Gone()
	room(false)
	dialing.Failed()
	room(true)
	for _, s := range used {
		giveBack(s)
	}
	surplus(false)
	p.expect(0, 3, 0, 0, 0)
}

// A connection beyond the warm ones stays for a while after it was used, in case the clients come back.
func TestIdleSurplus(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 6, Warm: 2, Weight: 1})
	p := r.pools[0]
	surplus := func(since Instant, want int) {
		t.Helper()
		n, ok := p.RetireSurplus(since)
		if n != want || ok != (want > 0) {
			t.Errorf("retired %d, %v; want %d", n, ok, want)
		}
	}
	for r.clock = 1; r.clock <= 4; r.clock++ {
		p.connect() // number 1 at 1, and so on
	}
	surplus(1, 0) // idle since then, not since before
	surplus(2, 1)
	surplus(2, 0)
	r.clock = 10
	giveBack(r.lease()) // 4 is idle since 10
	surplus(4, 2)
	surplus(11, 0) // two are to stay, however long
	dialing := p.dial()
	surplus(11, 3) // one of the two will be there soon
	dialing.Failed()
	p.Set(Settings{Cap: 6, Warm: 0, Weight: 1})
	surplus(10, 0)
	surplus(11, 4)
	surplus(11, 0)
	p.expect(0, 0, 0, 0, 4)
}

// A pool has numbers like any other while the others of its group have theirs.
func TestPoolsAreApart(t *testing.T) {
	r := newRig(t, Options{}, capped(2), capped(3))
	r.pools[0].lease(2)
	r.pools[1].fill(1)
	r.pools[0].expect(0, 0, 2, 0, 0)
	r.pools[1].expect(0, 1, 0, 0, 0)
	if _, ok := r.pools[0].RetireOldest(Aged); ok {
		t.Error("retired the connection of another pool")
	}
	if _, ok := r.pools[0].ReserveTrial(); ok {
		t.Error("used the room of another pool")
	}
	r.pools[1].dial()
}

// A probe takes a place within the cap, and that is all it does: the warm connections are dialed, and kept, beside it.
func TestReserveProbe(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 3, Warm: 1, Weight: 1})
	p := r.pools[0]
	first, second := p.probe(), p.probe()
	p.expect(2, 0, 0, 0, 0)
	s := p.reserved("no warm connection is dialed while the backend is probed")
	if _, ok := p.ReserveProbe(); ok {
		t.Error("a probe beyond the cap")
	}
	r.filled(s)
	if n, ok := p.RetireSurplus(math.MaxInt64); ok {
		t.Errorf("connection %d was retired for a probe", n)
	}
	first()
	if !panics(first) {
		t.Error("a probe that ended twice went well")
	}
	p.expect(1, 1, 0, 0, 0)
	second()
	p.expect(0, 1, 0, 0, 0)
	want := Totals{Dialed: 1}
	if got := p.Stats().Totals; got != want {
		t.Errorf("totals %+v; want %+v", got, want)
	}
}
