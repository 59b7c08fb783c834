package pool

import "testing"

// A client gets a connection of the pool that it prefers if one is idle, and otherwise what others get.
func TestPrefer(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(3), capped(3), capped(3))
	for _, p := range r.pools {
		p.dial().Filled(0)
	}
	prefers := func(i int) *Waiter[int] { return &Waiter[int]{Prefer: r.pools[i].Pool} }
	for _, i := range []int{2, 1} {
		if !r.pools[i].Offers("") {
			t.Fatalf("pool %d offers nothing", i)
		}
		if _, ok, err := r.Acquire(prefers(i)); !ok || err != nil || r.pools[i].Stats().Leased != 1 {
			t.Fatalf("pool %d: %v, %v, %+v", i, ok, err, r.pools[i].Stats())
		}
	}
	// It has room, but nothing idle: the client does not wait for it.
	if _, ok, _ := r.Acquire(prefers(2)); !ok || r.pools[0].Stats().Leased != 1 {
		t.Fatalf("the client waits, or got none of the idle connections: %+v", r.pools[0].Stats())
	}
	// Nothing is idle anywhere: the pool that it prefers dials, though others are as empty.
	w := prefers(2)
	if _, ok, err := r.Acquire(w); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	if r.pools[0].demanded() != nil || r.pools[1].demanded() != nil || r.pools[2].demanded() != w {
		t.Error("another pool dials")
	}
	// It can no longer: the others dial.
	r.pools[2].SetDialable(false)
	if r.pools[2].Offers("") || r.pools[0].demanded() != w || r.pools[2].demanded() != nil {
		t.Error("no other pool dials")
	}
	r.pools[1].dial().Filled(0)
	select {
	case <-w.Ready():
	default:
		t.Error("the client waits although a connection is idle")
	}
}

// A client in the middle of a session waits for the connection that is being dialed for it where it prefers, and gets another if that fails.
func TestPreferAhead(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1), capped(1))
	r.pools[0].dial().Filled(0)
	w := &Waiter[int]{Prefer: r.pools[1].Pool, Ahead: true}
	if _, ok, err := r.Acquire(w); ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	coming := r.pools[1].reserved("no connection is dialed for the client")
	select {
	case <-w.Ready():
		t.Fatal("the client did not wait for the dial")
	default:
	}
	r.pools[1].SetDialable(false)
	coming.Failed()
	select {
	case <-w.Ready():
	default:
		t.Error("the client waits for a pool that cannot dial")
	}
	// A pool that is gone is as none.
	r.Remove(r.pools[1].Pool)
	r.pools[0].Set(capped(2))
	r.pools[0].dial().Filled(0)
	if r.pools[1].Offers("") {
		t.Error("a removed pool offers connections")
	}
	if _, ok, err := r.Acquire(&Waiter[int]{Prefer: r.pools[1].Pool, Ahead: true}); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
