package pool

import (
	"fmt"
	"slices"
	"testing"
)

const keys = 4000

// placement returns the backend of each of many keys.
func (r *rig) placement() []int {
	got := make([]int, keys)
	for i := range got {
		got[i] = r.pick(HashKey(fmt.Sprintf("client-%d", i)), true)
	}
	return got
}

func hashRig(t *testing.T, weights ...float64) *rig {
	r := newRig(t, Options{Balance: Hash})
	for i, w := range weights {
		r.add(fmt.Sprintf("wss://gpu-%d.example/asr", i), Settings{Cap: 4, Weight: w}).fill(4)
	}
	return r
}

// expectShares compares how many keys each backend has with its share. The keys are always the same, so there is no chance
// in it.
func expectShares(t *testing.T, placement []int, shares ...float64) {
	t.Helper()
	total := 0.0
	for _, s := range shares {
		total += s
	}
	counts := make([]int, len(shares))
	for _, i := range placement {
		counts[i]++
	}
	for i, s := range shares {
		if share := s / total; !among(counts[i], keys, share) || share == 0 && counts[i] > 0 {
			t.Errorf("keys of the backends: %v; want them as %v", counts, shares)
			return
		}
	}
}

// The same key leads to the same backend, whatever the load, in every process and in whatever order the backends are added.
func TestHashIsStable(t *testing.T) {
	r := hashRig(t, 1, 1, 1, 1)
	before := r.placement()
	for range 3 { // of four connections
		r.pick(HashKey(fmt.Sprintf("client-%d", slices.Index(before, 2))), false)
	}
	r.pools[2].expect(0, 1, 3, 0, 0)
	if !slices.Equal(before, r.placement()) {
		t.Error("keys have moved with the load")
	}
	other := newRig(t, Options{Balance: Hash})
	for i := range 4 {
		other.add(fmt.Sprintf("wss://gpu-%d.example/asr", 3-i), capped(1)).fill(1)
	}
	for i, backend := range other.placement() {
		if 3-backend != before[i] {
			t.Fatalf("key %d is at backend %d in one process and at %d in another", i, before[i], 3-backend)
		}
	}
	// The numbers are part of what proxies of different versions have to agree on.
	if got, want := HashKey(""), mix(14695981039346656037); got != want {
		t.Errorf("HashKey of nothing: %#x; want %#x", got, want)
	}
	if got, want := HashKey("a"), mix(0xaf63dc4c8601ec8c); got != want { // FNV-1a of "a"
		t.Errorf("HashKey of a: %#x; want %#x", got, want)
	}
}

// Keys are spread as the weights say.
func TestHashSpreadsByWeight(t *testing.T) {
	expectShares(t, hashRig(t, 1, 1, 1, 1).placement(), 1, 1, 1, 1)
	expectShares(t, hashRig(t, 1, 2, 4, 0).placement(), 1, 2, 4, 0)
	r := hashRig(t, 2, 2)
	r.pools[0].SetRamp(0.1)
	expectShares(t, r.placement(), 0.1, 1)
}

// When a backend comes it takes its share and no other key moves; when it goes, its keys are shared out and no other moves.
func TestHashMovesFewKeys(t *testing.T) {
	r := hashRig(t, 1, 1, 1)
	before := r.placement()
	p := r.add("wss://gpu-3.example/asr", Settings{Cap: 4, Weight: 1})
	p.fill(4)
	with := r.placement()
	expectShares(t, with, 1, 1, 1, 1)
	for i := range with {
		if with[i] != before[i] && with[i] != 3 {
			t.Fatalf("key %d has moved from backend %d to %d when another was added", i, before[i], with[i])
		}
	}
	r.Remove(p.Pool)
	if !slices.Equal(before, r.placement()) {
		t.Error("keys are elsewhere after a backend has come and gone")
	}
	r.pools[0].SetMode(Draining)
	without := r.placement()
	expectShares(t, without, 0, 1, 1)
	for i := range without {
		if before[i] != 0 && without[i] != before[i] {
			t.Fatalf("key %d has moved from backend %d to %d when another was drained", i, before[i], without[i])
		}
	}
}

// A change of one backend's weight moves keys to it or away from it only.
func TestHashMovesFewKeysWithWeight(t *testing.T) {
	r := hashRig(t, 1, 1, 1)
	before := r.placement()
	r.pools[0].Set(Settings{Cap: 4, Weight: 2})
	after := r.placement()
	expectShares(t, after, 2, 1, 1)
	for i := range after {
		if after[i] != before[i] && after[i] != 0 {
			t.Fatalf("key %d has moved from backend %d to %d", i, before[i], after[i])
		}
	}
}

// A key whose backend has nothing idle goes to its second choice, always the same, and back when there is something again.
func TestHashFallsBack(t *testing.T) {
	r := hashRig(t, 1, 1, 1)
	key := HashKey("someone")
	first := r.pick(key, true)
	var sessions []*Slot[int]
	for range 4 {
		n, _, _ := r.Acquire(&Waiter[int]{Key: key})
		sessions = append(sessions, r.slots[n])
	}
	r.pools[first].expect(0, 0, 4, 0, 0)
	second := r.pick(key, true)
	for range 10 {
		if got := r.pick(key, true); got == first || got != second {
			t.Errorf("fell to backend %d; before to %d", got, second)
		}
	}
	giveBack(sessions[0])
	if got := r.pick(key, true); got != first {
		t.Errorf("backend %d; want %d again", got, first)
	}
}
