package jobs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// even runs a rebalancer over backends without anything else happening, one step a second, and returns how many sessions moved in each.
func even(r *rebalancer, from time.Duration, shares []share, seconds int) (moved []int) {
	byID := make(map[int]*share)
	for i := range shares {
		byID[shares[i].id] = &shares[i]
	}
	for i := range seconds {
		transfers := r.plan(from+time.Duration(i)*time.Second, append([]share(nil), shares...))
		for _, t := range transfers {
			byID[t.from].sessions--
			byID[t.from].free++
			byID[t.to].sessions++
			byID[t.to].free--
		}
		moved = append(moved, len(transfers))
	}
	return moved
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// A backend that was added gets its share: not before half a minute, a few a second, and then nothing more happens.
func TestRebalances(t *testing.T) {
	shares := []share{
		{id: 1, sessions: 30, weighted: 40, free: 10, counts: true, takes: true},
		{id: 2, sessions: 30, weighted: 40, free: 10, counts: true, takes: true},
		{id: 3, sessions: 0, weighted: 40, free: 40, counts: true, takes: true},
	}
	moved := even(newRebalancer(1), 0, shares, 120)
	if sum(moved[:30]) != 0 {
		t.Errorf("within half a minute %v moved", moved[:30])
	}
	if moved[30] != movesPerSecond || sum(moved) != 20 || sum(moved[37:]) != 0 {
		t.Errorf("moved each second: %v", moved)
	}
	for _, s := range shares {
		if s.sessions != 20 {
			t.Errorf("afterwards: %+v", shares)
		}
	}
}

func TestRebalancesNot(t *testing.T) {
	busy := share{id: 1, sessions: 30, weighted: 40, free: 10, counts: true, takes: true}
	for name, other := range map[string]share{
		"a backend that is drained":                    {id: 2, weighted: 40, free: 40},
		"a backend that is started slowly":             {id: 2, weighted: 40, free: 40, counts: true},
		"a backend without a place":                    {id: 2, weighted: 40, counts: true, takes: true},
		"a backend of weight 0":                        {id: 2, free: 40, counts: true, takes: true},
		"a backend that has a little less":             {id: 2, sessions: 24, weighted: 40, free: 16, counts: true, takes: true},
		"a small one that is as busy as the large one": {id: 2, sessions: 3, weighted: 4, free: 1, counts: true, takes: true},
	} {
		if moved := even(newRebalancer(1), 0, []share{busy, other}, 120); sum(moved) != 0 {
			t.Errorf("towards %s moved: %v", name, moved)
		}
	}
	alone := []share{busy}
	if moved := even(newRebalancer(1), 0, alone, 60); sum(moved) != 0 {
		t.Errorf("with one backend moved: %v", moved)
	}
}

// What exceeds its share for less than half a minute at a time never gives anything away, and what is even again stops at once.
func TestRebalancesOnlyWhatLasts(t *testing.T) {
	r := newRebalancer(1)
	uneven := func() []share {
		return []share{
			{id: 1, sessions: 30, weighted: 40, free: 10, counts: true, takes: true}, {id: 2, sessions: 10, weighted: 40, free: 30, counts: true, takes: true},
		}
	}
	level := func() []share {
		all := uneven()
		all[0].sessions, all[1].sessions = 20, 20
		return all
	}
	for second := range 200 {
		shares := uneven()
		if second%29 == 0 {
			shares = level()
		}
		if moved := r.plan(time.Duration(second)*time.Second, shares); len(moved) > 0 {
			t.Fatalf("second %d: %v", second, moved)
		}
	}
	r = newRebalancer(1)
	for second := range 31 {
		r.plan(time.Duration(second)*time.Second, uneven())
	}
	if !r.gives() {
		t.Fatal("it gives nothing away")
	}
	if moved := r.plan(31*time.Second, level()); len(moved) > 0 || r.gives() {
		t.Errorf("when it is even: %v", moved)
	}
}

// A backend that leaves while it gives sessions away, although it no longer has too much, is forgotten.
func TestRebalancerForgets(t *testing.T) {
	r := newRebalancer(1)
	shares := []share{
		{id: 1, sessions: 30, weighted: 40, free: 10, counts: true, takes: true}, {id: 2, sessions: 10, weighted: 40, free: 30, counts: true, takes: true},
	}
	for second := range 31 {
		r.plan(time.Duration(second)*time.Second, append([]share(nil), shares...))
	}
	shares[0].sessions, shares[1].sessions = 22, 20 // between half a session and 15 %
	if r.plan(31*time.Second, append([]share(nil), shares...)); !r.gives() {
		t.Fatal("it does not give until it has no more than its share")
	}
	if r.plan(32*time.Second, shares[1:]); r.gives() || len(r.over) > 0 {
		t.Errorf("after it has left: %v gives, %v has too much", r.active, r.over)
	}
}

// Whatever the loads, caps and weights are: transfers come to an end, none goes back to where another came from, no backend gets more than it
// has room for, and in the end none that could give has more than 15 % or a session too many while another could take.
func TestRebalanceNeverOscillates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) share {
			limit := rapid.IntRange(1, 200).Draw(t, "limit")
			sessions := rapid.IntRange(0, limit).Draw(t, "sessions")
			return share{
				sessions: sessions, weighted: float64(limit) * rapid.SampledFrom([]float64{0, 0.5, 1, 1, 1, 3}).Draw(t, "weight"),
				free:   limit - sessions,
				counts: rapid.IntRange(0, 9).Draw(t, "counts") > 0, takes: rapid.IntRange(0, 9).Draw(t, "takes") > 0,
			}
		}), 1, 12).Draw(t, "backends")
		total := 0
		for i := range shares {
			shares[i].id = 100 + i
			total += shares[i].sessions
		}
		gave, took := make(map[int]bool), make(map[int]bool)
		r := newRebalancer(rapid.Uint64().Draw(t, "seed"))
		quiet, moved := 0, 0
		for second := 0; quiet < 40; second++ {
			transfers := r.plan(time.Duration(second)*time.Second, append([]share(nil), shares...))
			if len(transfers) > movesPerSecond {
				t.Fatalf("%d in one second", len(transfers))
			}
			quiet++
			for _, m := range transfers {
				from, to := &shares[m.from-100], &shares[m.to-100]
				from.sessions--
				from.free++
				to.sessions++
				to.free--
				gave[m.from], took[m.to] = true, true
				if moved++; from.sessions < 0 || to.free < 0 || !to.counts || !to.takes || !from.counts {
					t.Fatalf("%+v to %+v", from, to)
				}
				quiet = 0
			}
			if moved > total {
				t.Fatalf("%d of %d sessions moved", moved, total)
			}
		}
		for id := range gave {
			if took[id] {
				t.Fatalf("backend %d gave sessions away, and took some", id)
			}
		}
	})
}
