package pool

import "testing"

// Where there is room, others are dialed first, and the outdated ones go when those are there.
func TestRenewWithRoom(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 8, Warm: 2, Weight: 1})
	p := r.pools[0]
	p.fill(2)
	if _, ok := p.RetireOutdated(8); ok {
		t.Fatal("retired a connection that is not outdated")
	}
	r.expectSignals("Renew", []int{0}, func() { p.Renew() })
	if _, ok := p.RetireOutdated(8); ok {
		t.Fatal("retired a connection before there is another")
	}
	var fresh []*Slot[int]
	for range 2 {
		s := p.reserved("no connection is wanted instead of an outdated one")
		fresh = append(fresh, s)
	}
	p.reservesNone("more are wanted than are warm")
	p.expect(2, 2, 0, 0, 0)
	for _, s := range fresh {
		r.filled(s)
	}
	if s := r.lease(); p.isOutdated(s) { // the latest first
		t.Error("leased an outdated connection while there are others")
	} else {
		giveBack(s)
	}
	for range 2 {
		if n, ok := p.RetireOutdated(8); !ok || !p.isOutdated(r.slots[n]) {
			t.Errorf("retired %d, %v; want an outdated one", n, ok)
		}
	}
	if _, ok := p.RetireOutdated(8); ok {
		t.Error("retired one that is not outdated")
	}
	p.expect(0, 2, 0, 0, 2)
	if got := p.Stats().Totals.Reasons[Outdated]; got != 2 {
		t.Errorf("%d retired as outdated; want 2", got)
	}
}

// In a full pool one connection at a time makes room for the others.
func TestRenewWithoutRoom(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 4, Warm: 4, Weight: 1})
	p := r.pools[0]
	p.fill(3)
	leased := p.lease(1)[0]
	p.Renew()
	retired, ok := p.RetireOutdated(1)
	if !ok {
		t.Fatal("none is retired to make room")
	}
	if _, ok := p.RetireOutdated(1); ok {
		t.Error("two are retired at once")
	}
	r.slots[retired].Gone()
	s := p.reserved("nothing is dialed in its place")
	if _, ok := p.RetireOutdated(1); ok {
		t.Error("another is retired before the one is there")
	}
	r.filled(s)
	p.expect(0, 3, 1, 0, 0)
	if !p.isOutdated(leased) || p.isOutdated(s) {
		t.Error("the leased connection is not outdated, or the new one is")
	}
	giveBack(leased) // a holder who does not ask
	for range 3 {
		n, ok := p.RetireOutdated(1)
		if !ok {
			t.Fatal("an outdated connection stays")
		}
		r.slots[n].Gone()
		s, _ := p.Reserve()
		r.filled(s)
	}
	if _, ok := p.RetireOutdated(4); ok || p.outdated != 0 {
		t.Errorf("%d outdated connections are left", p.outdated)
	}
}

// A server that takes fewer connections than the cap has a tenth of those replaced at a time.
func TestRenewBelowCeiling(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 100, Ceiling: 8, Warm: 100, Weight: 1})
	p := r.pools[0]
	p.fill(8)
	p.Renew()
	retired := 0
	for {
		if _, ok := p.RetireOutdated(32); !ok {
			break
		}
		retired++
	}
	if retired != 1 {
		t.Errorf("%d of 8 connections are retired at once; want 1", retired)
	}
}

// What the server holds for another pool is not there for this one, and the two together keep the cap.
func TestTaken(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, Settings{Cap: 2, Taken: 2, Warm: 2, Weight: 1})
	p := r.pools[0]
	if _, ok := p.Reserve(); ok {
		t.Fatal("dialed beyond the cap")
	}
	w := r.wait()
	r.expectSignals("one less being taken", []int{0}, func() { p.Set(Settings{Cap: 2, Taken: 1, Warm: 2, Weight: 1}) })
	s := p.reserved("not dialed below the cap")
	p.reservesNone("dialed beyond the cap")
	r.filled(s)
	r.handed(w)
}

// What a server accepts of this pool's connections is not less for those that another pool has.
func TestTakenBelowCeiling(t *testing.T) {
	for _, shared := range []bool{false, true} {
		p := newRig(t, Options{Queue: 1}, Settings{Cap: 10, Taken: 4, Warm: 10, Weight: 1, Shared: shared, Grant: 8}).pools[0]
		for ceiling, want := range map[int]int{3: 3, 9: map[bool]int{false: 6, true: 4}[shared]} {
			if p.SetCeiling(ceiling); p.Stats().Limit != want {
				t.Errorf("shared %v, with the ceiling %d, the limit is %d, want %d", shared, ceiling, p.Stats().Limit, want)
			}
		}
	}
}

// A pool that was removed can come back, with all its connections.
func TestRestore(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, capped(2))
	p := r.pools[0]
	p.fill(1)
	leased := r.lease()
	p.fill(1)
	r.Remove(p.Pool)
	w := r.wait()
	r.Restore(p.Pool)
	r.waiting(w)
	p.SetMode(Enabled)
	r.handed(w)
	giveBack(leased)
	p.expect(0, 1, 1, 0, 0)
}

// The queue's length and the balance can be changed, and those who wait stay.
func TestChangeQueueAndBalance(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, capped(1), capped(1))
	w := r.wait()
	r.SetQueue(0)
	if _, _, err := r.Acquire(&Waiter[int]{}); err != ErrNoQueue {
		t.Errorf("%v; want %v", err, ErrNoQueue)
	}
	r.waiting(w)
	r.SetQueue(2)
	other := r.wait()
	r.SetBalance(Hash)
	r.pools[0].fill(1)
	r.handed(w)
	r.pools[1].fill(1)
	r.handed(other)
	for key := range uint64(20) { // with one connection in each, the hash decides
		r.slots[1].pool.group.locked(func() {
			if r.balance != Hash {
				t.Errorf("the balance is %v, key %d", r.balance, key)
			}
		})
	}
}

// Renew tells how many connections are outdated from then on: those of sessions and those that are being dialed, but no probes and none that
// are being closed.
func TestRenewCounts(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 8, Warm: 1, Weight: 1})
	p := r.pools[0]
	p.fill(2)
	leased := p.lease(2)
	reset(leased[0])
	p.dial()
	defer p.probe()()
	p.RetireOldest(Shed)
	p.expect(2, 1, 1, 1, 1)
	if n := p.Renew(); n != 4 {
		t.Errorf("%d are outdated; want 4", n)
	}
	if n := p.Renew(); n != 4 {
		t.Errorf("%d are outdated the second time; want 4", n)
	}
}

// The outdated connections of a draining backend serve no client, and need no others in their place.
func TestRenewDraining(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 4, Warm: 2, Weight: 1})
	p := r.pools[0]
	p.fill(2)
	p.SetMode(Draining)
	if _, ok := p.RetireOutdated(1); ok {
		t.Error("retired a connection that is not outdated")
	}
	r.expectSignals("Renew", []int{0}, func() { p.Renew() })
	for range 2 {
		if _, ok := p.RetireOutdated(1); !ok {
			t.Error("an outdated connection stays")
		}
	}
	p.expect(0, 0, 0, 0, 2)
}
