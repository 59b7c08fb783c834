package health

import (
	"testing"
	"time"
)

// One client whom the server refuses again and again, perhaps because of what it says, neither keeps it from others for long nor lowers its
// ceiling; two clients do.
func TestOneClientIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		refused []Client
		full    bool
	}{"one client": {[]Client{alice, neighbour}, false}, "two clients": {[]Client{alice, bob}, true}, "unknown clients": {[]Client{{}}, true}} {
		h := New(Limits{Parallel: 4, Failures: 5})
		h.hold.random, h.ceiling.random = func(time.Duration) time.Duration { return 0 }, func(time.Duration) time.Duration { return 0 }
		h.SessionBegan(alice, noon)
		h.SessionBegan(bob, noon)
		now, longest := noon, time.Duration(0)
		for i := range 20 {
			h.SessionRefused(test.refused[i%len(test.refused)], 2, now)
			h.Review(now, Connections{Cap: 8, InUse: 3})
			begin := now
			for h.Held(now) {
				now += Instant(time.Millisecond)
			}
			longest = max(longest, time.Duration(now-begin))
		}
		if full := h.Ceiling().Value > 0; full != test.full || (longest > FirstHold) != test.full {
			t.Errorf("%s: ceiling %d, held for %v", name, h.Ceiling().Value, longest)
		}
	}
	h := New(Limits{Parallel: 4, Failures: 5})
	h.SessionBegan(alice, noon)
	h.SessionBegan(bob, noon)
	if h.SessionRefused(alice, 2, noon); !h.RefusesOnly(neighbour, noon) || h.RefusesOnly(bob, noon) || !h.RefusesOnly(bob, noon+Instant(refusedWithin)+1) {
		t.Error("it is not known whom the server refuses")
	}
}
