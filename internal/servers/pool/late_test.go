package pool

import "testing"

// lateShare is nine tenths of a third of the sessions.
const lateShare = 27

// late runs a service with long sessions whose backends are three quarters full, adds a backend, and returns how many sessions
// begin until that has nine tenths of its even share. For each that begins the oldest ends.
func late(t *testing.T, balance Balance) (begun int) {
	const size, each = 60, 45
	r := newRig(t, Options{Balance: balance}, capped(size), capped(size))
	var sessions []*Slot[int]
	for range each {
		for _, p := range r.pools {
			sessions = append(sessions, p.lease(1)...)
		}
	}
	r.add("late", capped(size))
	for _, p := range r.pools {
		p.fill(size - p.Stats().Leased)
	}
	newcomer := r.pools[2]
	for newcomer.Stats().Leased < lateShare {
		giveBack(sessions[0])
		sessions = append(sessions[1:], r.lease())
		begun++
		if begun > 1000 {
			t.Fatalf("%v: the newcomer serves %d sessions after %d have begun", balance, newcomer.Stats().Leased, begun)
		}
	}
	return begun
}

// With long sessions a backend that is added late fills up: it gets every session until it is loaded as the others are.
// Where turns are taken it gets its part of the new ones only, and the others stay the fuller ones for long.
func TestLateBackendFillsUp(t *testing.T) {
	if got := late(t, LeastLoaded); got > lateShare {
		t.Errorf("least-loaded: %d sessions until the newcomer had %d; want each of them", got, lateShare)
	}
	if got := late(t, RoundRobin); got < 2*lateShare {
		t.Errorf("round-robin: %d sessions until the newcomer had %d; then least-loaded is not needed", got, lateShare)
	}
}

// The same where no client leaves and clients have to wait: the late backend dials for them, and gets them.
func TestLateBackendServesTheQueue(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(4))
	r.pools[0].lease(4)
	clients := []*Waiter[int]{r.wait(), r.wait()}
	p := r.add("late", capped(4))
	for _, w := range clients {
		s := p.reserved("the newcomer does not dial for those who wait")
		r.filled(s)
		if r.handed(w) != s {
			t.Error("given another connection")
		}
	}
	p.reservesNone("dialed without a client")
}
