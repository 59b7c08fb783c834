package pool

import "testing"

// reserves tells for which pools, asked in that order again and again, connections are dialed until none is wanted any more.
func (r *rig) reserves(order ...int) []int {
	got := make([]int, len(r.pools))
	for again := true; again; {
		again = false
		for _, i := range order {
			if _, ok := r.pools[i].Reserve(); ok {
				got[i]++
				again = true
			}
		}
	}
	return got
}

// Without warm connections one is dialed for each client that waits, by the backend that is least loaded.
func TestDemand(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(a, b *rigPool)
		waiting int
		a, b    int
	}{
		{"nobody waits", func(_, _ *rigPool) {}, 0, 0, 0},
		{"the less loaded", func(a, _ *rigPool) { a.lease(1) }, 1, 0, 1},
		{"until it is not any more", func(a, _ *rigPool) { a.lease(2) }, 4, 1, 3},
		{"by share of the cap", func(a, b *rigPool) { a.Set(capped(8)); a.lease(2); b.lease(1) }, 1, 1, 0},
		{"by weight", func(a, b *rigPool) { a.Set(Settings{Cap: 4, Weight: 3}); a.lease(1); b.lease(1) }, 1, 1, 0},
		{"by ramp", func(a, b *rigPool) { a.SetRamp(0.1); b.lease(2) }, 1, 0, 1},
		{"resetting ones count", func(a, b *rigPool) { a.lease(1)[0].Reset() }, 1, 0, 1},
		{"dialing ones count", func(a, b *rigPool) { a.dial(); b.dial(); b.dial() }, 4, 1, 0},
		{"enough are dialed", func(a, b *rigPool) { a.dial(); b.dial() }, 2, 0, 0},
		{"but not for a backend that is not well", func(a, b *rigPool) { a.dial(); a.SetUsable(false) }, 1, 0, 1},
		{"one that is full", func(a, b *rigPool) { b.lease(3); a.Set(capped(1)); a.lease(1) }, 3, 0, 1},
		{"all are full", func(a, b *rigPool) { b.lease(4); a.lease(4) }, 3, 0, 0},
		{"one that will not dial", func(a, b *rigPool) { b.lease(3); a.SetDialable(false) }, 1, 0, 1},
		{"one that will again", func(a, b *rigPool) { b.lease(3); a.SetDialable(false); a.SetDialable(true) }, 1, 1, 0},
		{"an unusable one", func(a, b *rigPool) { b.lease(3); a.SetUsable(false) }, 1, 0, 1},
		{"a draining one", func(a, b *rigPool) { b.lease(3); a.SetMode(Draining) }, 1, 0, 1},
		{"a weightless one", func(a, b *rigPool) { b.lease(3); a.Set(Settings{Cap: 4}) }, 1, 0, 1},
		{"a removed one", func(a, b *rigPool) { b.lease(3); a.rig.Remove(a.Pool) }, 1, 0, 1},
		{"idle ones that cannot be leased", func(a, b *rigPool) { a.fill(3); a.SetUsable(false); b.lease(3) }, 2, 0, 1},
	} {
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			r := newRig(t, Options{Queue: 9}, capped(4), capped(4))
			c.prepare(r.pools[0], r.pools[1])
			for range c.waiting {
				r.wait()
			}
			if got := r.reserves(order...); got[0] != c.a || got[1] != c.b {
				t.Errorf("%s: dialed %v; want %d and %d (asked in the order %v)", c.name, got, c.a, c.b, order)
			}
		}
	}
}

// Warm connections that are being dialed serve those who wait too, so no more are dialed for them.
func TestWarmOnesServe(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, Settings{Cap: 9, Warm: 3, Weight: 1})
	for range 4 {
		r.wait()
	}
	if got := r.reserves(0); got[0] != 4 {
		t.Errorf("dialed %d; want 4", got[0])
	}
}

// Who dials next for the clients that wait depends on all backends, and each looks only when it is told. So whatever may
// move the duty to another tells the others.
func TestDemandSignals(t *testing.T) {
	all, own, none := []int{0, 1}, []int{0}, []int{}
	for _, c := range []struct {
		name                string
		waited, nobodyWaits []int // who is signalled while somebody waits, and otherwise
		prepare             func(a *rigPool) func()
	}{
		{"Reserve", []int{1}, none, func(a *rigPool) func() {
			a.Set(Settings{Cap: 4, Warm: 4, Weight: 1})
			return func() { a.Reserve() }
		}},
		{"ReserveTrial", []int{1}, none, func(a *rigPool) func() { return func() { a.ReserveTrial() } }},
		{"a Reserve in vain", none, none, func(a *rigPool) func() {
			a.Set(capped(1))
			return func() { a.Reserve() }
		}},
		{"Failed", all, own, func(a *rigPool) func() { return a.dial().Failed }},
		{"Abandoned", all, own, func(a *rigPool) func() { return a.dial().Abandoned }},
		{"Filled", all, own, func(a *rigPool) func() { s := a.dial(); return func() { a.rig.filled(s) } }},
		{"Reset", own, own, func(a *rigPool) func() { return a.lease(1)[0].Reset }},
		{"Return", own, own, func(a *rigPool) func() { return a.lease(1)[0].Return }},
		{"Discard", own, own, func(a *rigPool) func() { s := a.lease(1)[0]; return func() { s.Discard(Cut) } }},
		{"Gone", own, own, func(a *rigPool) func() { return a.bring(Retiring).Gone }},
		{"Set", all, all, func(a *rigPool) func() { return func() { a.Set(capped(2)) } }},
		{"SetMode", all, all, func(a *rigPool) func() { return func() { a.SetMode(Draining) } }},
		{"SetUsable", all, all, func(a *rigPool) func() { return func() { a.SetUsable(false) } }},
		{"SetDialable", all, all, func(a *rigPool) func() { return func() { a.SetDialable(false) } }},
		{"SetRamp", all, all, func(a *rigPool) func() { return func() { a.SetRamp(0.5) } }},
		{"Remove", all, all, func(a *rigPool) func() { return func() { a.rig.Remove(a.Pool) } }},
		{"Add", none, none, func(a *rigPool) func() { return func() { a.rig.Add("c", capped(1), func() {}) } }},
		{"Acquire, to wait,", all, all, func(a *rigPool) func() { return func() { a.rig.wait() } }},
		{"Leave", none, none, func(a *rigPool) func() { w := a.rig.wait(); return func() { a.rig.Leave(w, TimedOut) } }},
	} {
		for _, waiting := range []bool{false, true} {
			r := newRig(t, Options{Queue: 9}, capped(4), capped(4))
			a := r.pools[0]
			a.lease(1)
			f := c.prepare(a)
			want := c.nobodyWaits
			if waiting {
				r.wait()
				r.wait()
				want = c.waited
			}
			r.expectSignals(c.name, want, f)
		}
	}
	r := newRig(t, Options{Queue: 9}, capped(1), capped(4))
	r.pools[0].fill(1)
	r.expectSignals("Acquire", []int{0}, func() { r.lease() })
}
