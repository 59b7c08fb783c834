package pool

import (
	"errors"
	"testing"
)

// While a group is paused, clients wait beside idle connections, none is dialed for them, and Resume serves them at once, in their order.
func TestPause(t *testing.T) {
	r := newRig(t, Options{Queue: 3}, Settings{Cap: 3, Weight: 1})
	p := r.pools[0]
	p.fill(1)
	running := r.lease()
	p.fill(1)
	if !r.Pause() || r.Pause() {
		t.Error("the first Pause should do something, and the second nothing")
	}
	var first, second *Waiter[int]
	r.expectSignals("a client that is to wait", []int{}, func() { first = r.wait() })
	second = r.wait()
	if _, ok := p.Reserve(); ok || p.Demanded() {
		t.Error("a connection is dialed for a client that is to wait")
	}
	giveBack(running) // a session ends: its connection is kept
	r.waiting(first, second)
	p.expect(0, 2, 0, 0, 0)
	if s := r.Queue(); !s.Paused || s.Waiting != 2 {
		t.Errorf("queue: %+v", s)
	}
	third := r.wait()
	if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrPaused) || err.Error() != "the service is paused and no more clients may wait" {
		t.Errorf("a client beyond the queue: %v", err)
	}
	r.expectSignals("Resume with a client that no idle connection is for", []int{0}, func() {
		if !r.Resume() || r.Resume() {
			t.Error("the first Resume should do something, and the second nothing")
		}
	})
	r.handed(first)
	r.handed(second)
	r.waiting(third)
	if s, ok := p.Reserve(); !ok {
		t.Error("nothing is dialed for a client that waits")
	} else {
		r.filled(s)
		r.handed(third)
	}
}

// Who waits too long while the group is paused leaves, and those behind it keep their places.
func TestLeavePaused(t *testing.T) {
	r := newRig(t, Options{Queue: 2}, Settings{Cap: 1, Weight: 1})
	r.pools[0].fill(1)
	r.Pause()
	first, second := r.wait(), r.wait()
	if n, leased := r.Leave(first, TimedOut); leased {
		t.Errorf("left with connection %d", n)
	}
	r.waiting(second)
	r.Resume()
	r.handed(second)
	if s := r.Queue(); s.Totals.TimedOut != 1 || s.Totals.Served != 1 {
		t.Errorf("queue: %+v", s)
	}
}

// Without a queue, a paused group refuses.
func TestPauseWithoutQueue(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 1, Weight: 1})
	r.pools[0].fill(1)
	r.Pause()
	if _, ok, err := r.Acquire(&Waiter[int]{}); ok || !errors.Is(err, ErrPaused) {
		t.Errorf("Acquire: %v, %v", ok, err)
	}
	r.Resume()
	r.lease()
}

// A pause stops neither the dialing of warm connections nor the replacement of outdated ones.
func TestWarmWhilePaused(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, Settings{Cap: 4, Warm: 2, Weight: 1})
	p := r.pools[0]
	p.fill(1)
	r.Pause()
	w := r.wait()
	s, ok := p.Reserve()
	if !ok || s.Demanded() {
		t.Fatalf("reserved %v; want a warm connection", ok)
	}
	r.filled(s)
	if n := p.Renew(); n != 2 {
		t.Errorf("%d connections are outdated; want 2", n)
	}
	for range 2 {
		s := p.reserved("nothing is dialed instead of an outdated connection")
		r.filled(s)
	}
	for range 2 {
		if _, ok := p.RetireOutdated(4); !ok {
			t.Error("an outdated connection stays")
		}
	}
	p.expect(0, 2, 0, 0, 2)
	r.waiting(w)
}
