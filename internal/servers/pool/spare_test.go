package pool

import "testing"

// ready reports whether a spare place is there.
func ready(s *Spare[int]) bool {
	select {
	case <-s.Ready():
		return true
	default:
		return false
	}
}

func TestReserveSpare(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 3, Warm: 3, Weight: 1})
	p := r.pools[0]
	// There is room: two more connections may be dialed beside it, and no third.
	s, _, retire, ok := p.ReserveSpare()
	if !ok || retire || !ready(s) {
		t.Fatal("no place in an empty pool")
	}
	if _, _, _, again := p.ReserveSpare(); again {
		t.Error("two canaries at a time")
	}
	p.fill(2)
	p.reservesNone("a connection beyond the cap")
	s.Done()
	p.fill(1)
	p.expect(0, 3, 0, 0, 0)

	// It is full of idle connections: one makes room, and its place goes to no other.
	s, conn, retire, ok := p.ReserveSpare()
	if !ok || !retire || ready(s) {
		t.Fatalf("full of idle connections: %v, retired %v", ok, retire)
	}
	p.expect(0, 2, 0, 0, 1)
	r.slots[conn].Gone()
	if !ready(s) {
		t.Error("the place is not there when its connection is gone")
	}
	p.expect(1, 2, 0, 0, 0)
	p.reservesNone("a connection beyond the cap")
	s.Done()
	p.expect(0, 2, 0, 0, 0)

	// It is given up before its place is there.
	p.fill(1)
	if s, conn, _, ok = p.ReserveSpare(); !ok {
		t.Fatal("no place")
	}
	s.Done()
	p.reservesNone("a connection beyond the cap, while one is being closed")
	r.slots[conn].Gone()
	p.fill(1)
	p.expect(0, 3, 0, 0, 0)

	// Never the last place of clients.
	leased := []*Slot[int]{r.lease(), r.lease()}
	if _, _, _, ok := p.ReserveSpare(); ok {
		t.Error("the last place went to a canary")
	}
	giveBack(leased[0])
	if s, _, _, ok = p.ReserveSpare(); !ok {
		t.Error("no place beside two that are free")
	}
	s.Done()
	p.SetMode(Draining)
	if _, _, _, ok := p.ReserveSpare(); ok {
		t.Error("a canary for a backend that is drained")
	}
}

// A limit that falls and rises while a spare place is awaited does not keep it away: another connection makes room, and so does a higher limit.
func TestReserveSpareWhileLimitChanges(t *testing.T) {
	settings := Settings{Cap: 3, Warm: 3, Weight: 1}
	r := newRig(t, Options{}, settings)
	p := r.pools[0]
	begin := func(dialed int) *Spare[int] {
		t.Helper()
		p.Set(settings)
		p.fill(dialed)
		s, conn, retire, ok := p.ReserveSpare()
		if !ok || !retire {
			t.Fatalf("%v, retired %v", ok, retire)
		}
		p.Set(Settings{Cap: 2, Warm: 2, Weight: 1})
		r.slots[conn].Gone()
		if ready(s) {
			t.Fatal("the place is beyond the limit")
		}
		return s
	}
	s := begin(3)
	conn, ok := p.RetireSurplus(0)
	if !ok {
		t.Fatal("no other connection makes room")
	}
	r.slots[conn].Gone()
	if !ready(s) {
		t.Error("the place is not there when another connection has gone")
	}
	s.Done()
	s = begin(2)
	p.Set(settings)
	if !ready(s) {
		t.Error("the place is not there when the limit has risen")
	}
	s.Done()
}

// While the backend is out of service, neither clients that wait nor the last place keep it from being played what brings it back: clients could not
// use the place.
func TestReserveSpareOutOfService(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, Settings{Cap: 3, Warm: 3, Weight: 1})
	p := r.pools[0]
	p.fill(3)
	p.SetUsable(false)
	w := r.wait()
	for _, places := range []int{3, 1} {
		p.Set(Settings{Cap: places, Warm: places, Weight: 1})
		for range 3 - places {
			n, _ := p.RetireOldest(Surplus)
			r.slots[n].Gone()
		}
		s, conn, retire, ok := p.ReserveSpare()
		if !ok || !retire {
			t.Fatalf("with %d places: %v, retired %v", places, ok, retire)
		}
		r.slots[conn].Gone()
		if !ready(s) {
			t.Errorf("with %d places, the spare one is not there when its connection is gone", places)
		}
		s.Done()
		p.fill(1)
	}
	r.waiting(w)

	// Sessions that began before keep their places.
	p.SetUsable(true)
	r.handed(w)
	p.SetUsable(false)
	if _, _, _, ok := p.ReserveSpare(); ok {
		t.Error("the place of a session is spare")
	}

	// Back in service, the last place is the clients' again.
	p.Set(Settings{Cap: 2, Warm: 2, Weight: 1})
	p.SetUsable(true)
	if _, _, _, ok := p.ReserveSpare(); ok {
		t.Error("the last place went to a canary")
	}
}
