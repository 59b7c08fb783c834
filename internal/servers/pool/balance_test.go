package pool

import (
	"slices"
	"strings"
	"testing"
)

// pick leases a connection as the group's balance says, and gives it back if the session is to be over at once.
func (r *rig) pick(key uint64, over bool) int {
	r.t.Helper()
	n, ok, err := r.Acquire(&Waiter[int]{Key: key})
	if !ok || err != nil {
		r.t.Fatalf("Acquire: %v, %v", ok, err)
	}
	s := r.slots[n]
	if over {
		giveBack(s)
	}
	return slices.IndexFunc(r.pools, func(p *rigPool) bool { return p.Pool == s.pool })
}

// picks counts where n sessions go, each of which ends before the next begins.
func (r *rig) picks(n int) []int {
	r.t.Helper()
	got := make([]int, len(r.pools))
	for range n {
		got[r.pick(0, true)]++
	}
	return got
}

// among reports whether n is what chance makes of an expected number: within six standard deviations, which it leaves less
// than once in a hundred million times.
func among(n int, of, share float64) bool {
	d := float64(n) - of*share
	return d*d <= 36*of*share*(1-share)
}

// Sessions stay, so each backend comes to hold the same share of its cap in relation to its weight.
func TestLeastLoadedFillsEvenly(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []Settings
		ramp     float64 // of the first
		sessions int
		want     []int
	}{
		{"equal", []Settings{capped(10), capped(10), capped(10)}, 1, 12, []int{4, 4, 4}},
		{"by cap", []Settings{capped(10), capped(20), capped(30)}, 1, 30, []int{5, 10, 15}},
		{"by weight", []Settings{{Cap: 30, Weight: 3}, {Cap: 30, Weight: 1}}, 1, 20, []int{15, 5}},
		{"by cap and weight", []Settings{{Cap: 10, Weight: 2}, {Cap: 40, Weight: 1}}, 1, 15, []int{5, 10}},
		{"by ramp", []Settings{capped(20), capped(20)}, 0.25, 15, []int{3, 12}},
		{"one full", []Settings{capped(2), {Cap: 20, Weight: 0.01}}, 1, 8, []int{2, 6}},
		{"one for none", []Settings{capped(5), {Cap: 5}}, 1, 5, []int{5, 0}},
	} {
		r := newRig(t, Options{}, c.settings...)
		for _, p := range r.pools {
			p.fill(p.Stats().Cap)
		}
		r.pools[0].SetRamp(c.ramp)
		got := make([]int, len(r.pools))
		for range c.sessions {
			got[r.pick(0, false)]++
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

// A connection that is resetting is in use, one that is dialed or idle is not.
func TestLoadIsWhatIsInUse(t *testing.T) {
	r := newRig(t, Options{}, capped(8), capped(8))
	a, b := r.pools[0], r.pools[1]
	sessions := a.lease(2)
	a.fill(1)
	b.lease(1)
	b.fill(1)
	b.dial()
	b.dial()
	if got := r.pick(0, true); got != 1 {
		t.Error("took the one with more leased")
	}
	reset(sessions[0])
	if got := r.pick(0, true); got != 1 {
		t.Error("took the one with more leased or resetting")
	}
	discard(sessions[0], Cut)
	discard(sessions[1], Cut)
	if got := r.pick(0, true); got != 0 {
		t.Error("took the one with more leased")
	}
}

// Backends that are equally loaded get equally many, in no order, so that several proxies do not all begin with the same.
func TestTiesAreRandom(t *testing.T) {
	const n = 3000
	for _, balance := range []Balance{LeastLoaded, RandomTwo} {
		r := newRig(t, Options{Balance: balance}, capped(1), capped(1), capped(1))
		repeated, last := 0, -1
		got := make([]int, 3)
		for _, p := range r.pools {
			p.fill(1)
		}
		for range n {
			i := r.pick(0, true)
			if got[i]++; i == last {
				repeated++
			}
			last = i
		}
		for _, count := range append(got, repeated) {
			if !among(count, n, 1.0/3) {
				t.Errorf("%v: %v, %d times the same again; want about %d of each", balance, got, repeated, n/3)
				break
			}
		}
	}
}

// Turns are taken by weight, and those of a heavy backend are spread among those of the others.
func TestRoundRobin(t *testing.T) {
	weights := func(weights ...float64) *rig {
		r := newRig(t, Options{Balance: RoundRobin})
		for i, w := range weights {
			r.add(string(rune('a'+i)), Settings{Cap: 2, Weight: w}).fill(2)
		}
		return r
	}
	turns := func(r *rig, n int) (names string) {
		for range n {
			names += string(rune('a' + r.pick(0, true)))
		}
		return names
	}
	for range 20 { // since ties are random
		r := weights(5, 1, 1)
		for range 3 {
			got := turns(r, 7)
			if strings.Replace(got, "c", "b", 1) != "aababaa" || strings.Count(got, "c") != 1 {
				t.Errorf("%s; want aa, then one of b and c, a, the other, aa", got)
			}
		}
		r = weights(1, 1, 1)
		for range 3 {
			if got := turns(r, 3); !strings.Contains(got, "a") || !strings.Contains(got, "b") || !strings.Contains(got, "c") {
				t.Errorf("%s; want each once", got)
			}
		}
		r = weights(2, 2, 2)
		r.pools[0].SetRamp(0.5)
		r.pools[2].SetUsable(false)
		if got := turns(r, 30); strings.Count(got, "a") != 10 || strings.Contains(got, "c") {
			t.Errorf("%s; want one a for two b", got)
		}
	}
}

// What a backend has had by an old weight is no debt that it pays by the new one.
func TestTurnsBeginAnewWithNewWeights(t *testing.T) {
	r := newRig(t, Options{Balance: RoundRobin}, Settings{Cap: 1, Weight: 1000}, capped(1))
	for _, p := range r.pools {
		p.fill(1)
	}
	r.picks(501)
	r.pools[0].Set(capped(1))
	if got := r.picks(10); got[0] != 5 {
		t.Errorf("%v; want five of each", got)
	}
}

// Of two backends at random the less loaded is taken, so the most loaded of three never is, and the others are.
func TestRandomTwo(t *testing.T) {
	r := newRig(t, Options{Balance: RandomTwo}, capped(9), capped(9), capped(9))
	for i, p := range r.pools {
		p.lease(i + 1)
		p.fill(1)
	}
	const n = 3000
	got := r.picks(n)
	if got[2] != 0 || !among(got[0], n, 2.0/3) {
		t.Errorf("%v; want two thirds, one third, none", got)
	}
	r.pools[0].SetUsable(false)
	if got := r.picks(50); got[1] != 50 {
		t.Errorf("%v; want the less loaded of the two that there are", got)
	}
	r.pools[1].SetUsable(false)
	if got := r.picks(50); got[2] != 50 {
		t.Errorf("%v; want the only one", got)
	}
}

// Heavy backends are drawn more often: of two with the same load, as often as the weights say.
func TestRandomTwoDrawsByWeight(t *testing.T) {
	r := newRig(t, Options{Balance: RandomTwo}, Settings{Cap: 1, Weight: 3}, Settings{Cap: 1, Weight: 1})
	for _, p := range r.pools {
		p.fill(1)
	}
	const n = 4000
	if got := r.picks(n); !among(got[0], n, 0.75) {
		t.Errorf("%v; want three quarters, one quarter", got)
	}
}

// Whatever the balance, a backend that has nothing to lease is passed over, and none is found when there is none.
func TestBalanceTakesOnlyWhatIsThere(t *testing.T) {
	for balance := LeastLoaded; balance <= Hash; balance++ {
		r := newRig(t, Options{Balance: balance}, capped(2), capped(2), capped(2), capped(2), Settings{Cap: 2})
		r.pools[0].fill(2)
		for i := range 20 {
			if got := r.pick(uint64(i), true); got != 0 {
				t.Errorf("%v: backend %d", balance, got)
			}
		}
		for i, p := range r.pools[1:] {
			p.fill(1)
			switch i {
			case 0:
				p.SetMode(Draining)
			case 1:
				p.SetUsable(false)
			case 2:
				r.Remove(p.Pool)
			}
		}
		for i := range 20 {
			if got := r.pick(uint64(i), true); got != 0 {
				t.Errorf("%v: backend %d", balance, got)
			}
		}
		r.pools[0].SetMode(Disabled)
		if n, ok, _ := r.Acquire(&Waiter[int]{}); ok {
			t.Errorf("%v: leased %d", balance, n)
		}
	}
}
