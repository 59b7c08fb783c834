package pool

import (
	"fmt"
	"testing"
)

// reserves tells for which pools, asked in that order again and again, connections are dialed until no more are wanted.
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
		{"no client waits", func(_, _ *rigPool) {}, 0, 0, 0},
		{"the less loaded", func(a, _ *rigPool) { a.lease(1) }, 1, 0, 1},
		{"until it no longer is", func(a, _ *rigPool) { a.lease(2) }, 4, 1, 3},
		{"by share of the cap", func(a, b *rigPool) { a.Set(capped(8)); a.lease(2); b.lease(1) }, 1, 1, 0},
		{"by weight", func(a, b *rigPool) { a.Set(Settings{Cap: 4, Weight: 3}); a.lease(1); b.lease(1) }, 1, 1, 0},
		{"by ramp", func(a, b *rigPool) { a.SetRamp(0.1); b.lease(2) }, 1, 0, 1},
		{"resetting ones count", func(a, b *rigPool) { reset(a.lease(1)[0]) }, 1, 0, 1},
		{"dialing ones count", func(a, b *rigPool) { a.dial(); b.dial(); b.dial() }, 4, 1, 0},
		{"a probe serves no client", func(a, b *rigPool) { a.lease(1); b.probe() }, 1, 0, 1},
		{"a probe takes room", func(a, b *rigPool) { a.lease(3); b.lease(3); b.probe() }, 2, 1, 0},
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

// Workers are signalled when there is something for them to do, and only then. Who dials next for the clients that wait
// depends on all backends, so whatever makes it another's turn tells that one.
func TestDemandSignals(t *testing.T) {
	both, a0, b1, none := []int{0, 1}, []int{0}, []int{1}, []int{}
	for _, c := range []struct {
		name              string
		waited, noneWaits []int // who is signalled while two clients wait, for whom b should dial, and otherwise
		prepare           func(a, b *rigPool) func()
	}{
		{"Reserve", b1, none, func(a, _ *rigPool) func() {
			a.Set(Settings{Cap: 4, Warm: 4, Weight: 1})
			return func() { a.Reserve() }
		}},
		{"a Reserve that makes it no pool's turn", none, none, func(a, b *rigPool) func() {
			b.dial()
			a.Set(Settings{Cap: 4, Warm: 4, Weight: 1})
			return func() { a.Reserve() }
		}},
		{"ReserveTrial", b1, none, func(a, _ *rigPool) func() { return func() { a.ReserveTrial() } }},
		{"ReserveProbe", b1, none, func(a, _ *rigPool) func() { return func() { a.probe() } }},
		{"a probe's end", both, a0, func(a, _ *rigPool) func() { return a.probe() }},
		{"a Reserve without success", none, none, func(a, _ *rigPool) func() {
			a.Set(capped(1))
			return func() { a.Reserve() }
		}},
		{"Failed", both, a0, func(a, _ *rigPool) func() { return a.dial().Failed }},
		{"Abandoned", both, a0, func(a, _ *rigPool) func() { return a.dial().Abandoned }},
		{"Filled", b1, a0, func(a, _ *rigPool) func() { s := a.dial(); return func() { a.rig.filled(s) } }},
		{"Filled with a warm one", both, none, func(a, _ *rigPool) func() {
			s := a.dial()
			a.Set(Settings{Cap: 4, Warm: 1, Weight: 1})
			return func() { a.rig.filled(s) }
		}},
		{"Reset", b1, none, func(a, _ *rigPool) func() { s := a.lease(1)[0]; return func() { reset(s) } }},
		{"Return", b1, a0, func(a, _ *rigPool) func() { s := a.lease(1)[0]; return func() { giveBack(s) } }},
		{"Return, to be kept warm,", a0, none, func(a, _ *rigPool) func() {
			s := a.lease(1)[0]
			a.Set(Settings{Cap: 4, Warm: 2, Weight: 1})
			a.dial()
			return func() { giveBack(s) }
		}},
		{"Return to the other, as loaded then as a,", both, b1, func(_, b *rigPool) func() { s := b.lease(1)[0]; return func() { giveBack(s) } }},
		{"Discard", b1, none, func(a, _ *rigPool) func() { s := a.lease(1)[0]; return func() { discard(s, Cut) } }},
		{"Gone", both, a0, func(a, _ *rigPool) func() { return a.bring(Retiring).Gone }},
		{"Set", b1, none, func(a, _ *rigPool) func() { return func() { a.Set(capped(2)) } }},
		{"Set, with more warm ones,", both, a0, func(a, _ *rigPool) func() {
			return func() { a.Set(Settings{Cap: 4, Warm: 1, Weight: 1}) }
		}},
		{"Set, with more weight,", a0, none, func(a, _ *rigPool) func() {
			return func() { a.Set(Settings{Cap: 4, Weight: 3}) }
		}},
		{"SetMode", b1, none, func(a, _ *rigPool) func() { return func() { a.SetMode(Draining) } }},
		{"SetMode of the other", a0, none, func(_, b *rigPool) func() { return func() { b.SetMode(Draining) } }},
		{"SetUsable", both, a0, func(a, _ *rigPool) func() { return func() { a.SetUsable(false) } }},
		{"SetUsable of the other", both, b1, func(_, b *rigPool) func() { return func() { b.SetUsable(false) } }},
		{"SetDialable", b1, none, func(a, _ *rigPool) func() { return func() { a.SetDialable(false) } }},
		{"SetDialable of the other", a0, none, func(_, b *rigPool) func() { return func() { b.SetDialable(false) } }},
		{"SetRamp of the other", a0, none, func(_, b *rigPool) func() { return func() { b.SetRamp(0.1) } }},
		{"Remove", b1, none, func(a, _ *rigPool) func() { return func() { a.rig.Remove(a.Pool) } }},
		{"Remove of the other", a0, none, func(_, b *rigPool) func() { return func() { b.rig.Remove(b.Pool) } }},
		{"Add", b1, none, func(a, _ *rigPool) func() { return func() { a.rig.Add("c", capped(1), func() {}) } }},
		{"Acquire, to wait,", b1, b1, func(a, _ *rigPool) func() { return func() { a.rig.wait() } }},
		{"Leave", b1, none, func(a, _ *rigPool) func() { w := a.rig.wait(); return func() { a.rig.Leave(w, TimedOut) } }},
	} {
		for _, waiting := range []bool{false, true} {
			r := newRig(t, Options{Queue: 9}, capped(4), capped(4))
			a, b := r.pools[0], r.pools[1]
			a.lease(1)
			f := c.prepare(a, b)
			want := c.noneWaits
			if waiting {
				r.wait()
				r.wait()
				want = c.waited
			}
			r.expectSignals(fmt.Sprintf("%s (waiting: %v)", c.name, waiting), want, f)
		}
	}
}

// Leasing tells the worker when there is something to do in its wake.
func TestLeaseSignals(t *testing.T) {
	for _, c := range []struct {
		what        string
		limit, warm int
		want        []int
	}{
		{"one that leaves a surplus", 3, 0, []int{0}},
		{"one that leaves what is to be warm", 3, 1, []int{}},
		{"one that leaves too few", 3, 2, []int{0}},
		{"one that leaves too few, without room for more,", 2, 2, []int{}},
	} {
		r := newRig(t, Options{}, capped(c.limit))
		r.pools[0].fill(2)
		r.pools[0].Set(Settings{Cap: c.limit, Warm: c.warm, Weight: 1})
		r.expectSignals("Acquire of "+c.what, c.want, func() { r.lease() })
	}
}
