package pool

import (
	"errors"
	"slices"
	"testing"
)

// aheadOf returns a client of a session that must move.
func aheadOf(avoid, only *rigPool) *Waiter[int] {
	w := &Waiter[int]{Ahead: true, Begun: true}
	if avoid != nil {
		w.Avoid = avoid.Pool
	}
	if only != nil {
		w.Only = only.Pool
	}
	return w
}

// waits fails unless the client has to wait.
func (r *rig) waits(w *Waiter[int]) {
	r.t.Helper()
	if _, ok, err := r.Acquire(w); ok || err != nil {
		r.t.Fatalf("the client does not wait: %v, %v", ok, err)
	}
}

// got fails unless the client has got a connection of the pool.
func (r *rig) got(w *Waiter[int], p *rigPool) {
	r.t.Helper()
	select {
	case n := <-w.Ready():
		if r.slots[n].pool != p.Pool {
			r.t.Error("the client got a connection of another pool")
		}
	default:
		r.t.Error("the client got no connection")
	}
}

// Sessions that move are served before all others, in their order, whatever the queue's limit is.
func TestAheadOfAll(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, capped(3))
	p := r.pools[0]
	held := p.lease(3)
	other := &Waiter[int]{}
	r.waits(other)
	if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrQueueFull) {
		t.Errorf("a second client waits: %v", err)
	}
	first, second := aheadOf(nil, nil), aheadOf(nil, nil)
	r.waits(first)
	r.waits(second)
	if n := r.Queue().Waiting; n != 3 {
		t.Errorf("%d clients wait; want 3", n)
	}
	for i, w := range []*Waiter[int]{first, second, other} {
		giveBack(held[i])
		r.got(w, p)
	}
	if s := r.Queue(); s.Waiting != 0 || s.Totals.Served != 3 {
		t.Errorf("the queue is %+v", s)
	}
}

// A session gets no connection of the server that it left while another has room, and one of that server when there is no other.
func TestAvoid(t *testing.T) {
	r := newRig(t, Options{}, capped(2), capped(1))
	left, next := r.pools[0], r.pools[1]
	left.fill(1)
	w := aheadOf(left, nil)
	r.waits(w) // although a connection of the pool that it left is idle
	if left.Demanded() || !next.Demanded() {
		t.Errorf("dials: the pool that it left %v, the other %v", left.Demanded(), next.Demanded())
	}
	next.connect()
	r.got(w, next)
	again := aheadOf(left, nil) // the other is full
	if _, ok, _ := r.Acquire(again); !ok || r.slots[1].State() != Leased {
		t.Error("a session got no connection of the only server that has room")
	}
}

// The one that is avoided is used as soon as the others cannot be reached.
func TestAvoidUnreachable(t *testing.T) {
	r := newRig(t, Options{}, capped(1), capped(1))
	left, next := r.pools[0], r.pools[1]
	left.fill(1)
	w := aheadOf(left, nil)
	r.waits(w)
	next.SetDialable(false)
	r.got(w, left)
}

// Idle connections of theirs that the session cannot use make no difference.
func TestAvoidUnreachableOfVariant(t *testing.T) {
	r := newRig(t, Options{}, varied(1, 0), varied(1, 0))
	left, next := r.pools[0], r.pools[1]
	next.KeepWarm("a")
	next.fill(1)
	next.SetDialable(false)
	w := aheadOf(left, nil)
	w.Variant = "b"
	r.waits(w)
	left.work()
	r.got(w, left)
}

// A session that is to move to a server waits for that one alone, and keeps no other client waiting.
func TestOnly(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(2), capped(1))
	wanted, other := r.pools[1], r.pools[0]
	held := wanted.lease(1)
	w := aheadOf(nil, wanted)
	r.waits(w)
	other.fill(1)
	client := &Waiter[int]{}
	if _, ok, _ := r.Acquire(client); !ok {
		t.Error("a client waits beside an idle connection that the session cannot use")
	}
	if other.Demanded() {
		t.Error("another server is dialed for a session that needs this one")
	}
	waiting := &Waiter[int]{}
	r.waits(waiting)
	if !other.Demanded() {
		t.Error("no backend dials for a client behind a session that none can dial for")
	}
	giveBack(held[0])
	r.got(w, wanted)
	other.connect()
	r.got(waiting, other)
}

// Those who leave, or are refused, are out.
func TestAheadLeaves(t *testing.T) {
	r := newRig(t, Options{}, capped(1))
	p := r.pools[0]
	held := p.lease(1)
	gone, refused, last := aheadOf(nil, nil), aheadOf(nil, nil), aheadOf(nil, nil)
	gone.Tenant, refused.Variant = "acme", "v"
	for _, w := range []*Waiter[int]{gone, refused, last} {
		r.waits(w)
	}
	if _, leased := r.Leave(gone, TimedOut); leased {
		t.Error("who left has a lease")
	}
	if all, _ := r.Tenants(); len(all) != 1 {
		t.Errorf("tenants that are left: %+v", all)
	}
	why := errors.New("no")
	r.locked(func() { r.queue.refuse("v", why) })
	if _, ok := <-refused.Ready(); ok || !errors.Is(refused.Refused(), why) {
		t.Error("a client was not refused")
	}
	giveBack(held[0])
	r.got(last, p)
	if n := r.Queue().Waiting; n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A session that must leave a server gets a connection of another that is full of idle ones of another variant: one of them makes room,
// whether the server that it leaves has room, could make some sooner, or is making some.
func TestAvoidMakesRoom(t *testing.T) {
	for _, c := range []struct{ idle, closing int }{{0, 0}, {4, 0}, {0, 1}, {3, 1}} {
		idle := c.idle
		r := newRig(t, Options{Queue: 9}, varied(4, 0), varied(2, 0))
		left, next := r.pools[0], r.pools[1]
		for _, s := range left.lease(c.closing) {
			discard(s, Lost)
		}
		left.KeepWarm("a")
		left.fill(idle)
		next.KeepWarm("a")
		next.fill(2)
		w := aheadOf(left, nil)
		w.Variant = "b"
		r.expectSignals("the session", []int{1}, func() { r.waits(w) })
		if dialed := left.work(); len(dialed) > 0 || left.Stats().Idle != idle {
			t.Errorf("the server that the session leaves dials %q: %+v", dialed, left.Stats())
		}
		if dialed := next.work(); !slices.Equal(dialed, []string{"b"}) {
			t.Errorf("the other dials %q", dialed)
		}
		r.got(w, next)
	}
}

// Of several such sessions, each counts only on the places that are becoming free where it may go, and on those that no other waits for.
func TestAvoidSharesRoom(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(2, 0), varied(2, 0))
	a, b := r.pools[0], r.pools[1]
	for _, p := range r.pools {
		leased := p.lease(1)
		p.KeepWarm("a")
		p.fill(1)
		discard(leased[0], Lost)
	}
	for _, w := range []*Waiter[int]{aheadOf(b, nil), aheadOf(a, nil)} {
		w.Variant = "b"
		r.waits(w)
	}
	for i, p := range r.pools {
		if n, ok := p.RetireSurplus(0); ok {
			t.Errorf("pool %d closes connection %d, though a place becomes free for each session", i, n)
		}
	}
	third := aheadOf(a, nil)
	third.Variant = "b"
	r.waits(third)
	if n, ok := a.RetireSurplus(0); ok {
		t.Errorf("connection %d of the server that the session leaves is closed for it", n)
	}
	if _, ok := b.RetireSurplus(0); !ok {
		t.Error("no room is made for the third session")
	}
}

// A connection that is being dialed is for one session, whatever the others need: each gets its own at the same time, not one after the other.
func TestAheadDialsForEach(t *testing.T) {
	for name, differ := range map[string]func(r *rig, all []*Waiter[int]){
		"tenants": func(_ *rig, all []*Waiter[int]) { all[0].Tenant, all[1].Tenant, all[2].Tenant = "a", "b", "a" },
		"avoid":   func(r *rig, all []*Waiter[int]) { all[0].Avoid, all[1].Avoid = r.pools[0].Pool, r.pools[1].Pool },
	} {
		r := newRig(t, Options{}, capped(1), capped(1), capped(9))
		r.pools[0].SetUsable(false)
		r.pools[1].SetUsable(false)
		all := []*Waiter[int]{aheadOf(nil, nil), aheadOf(nil, nil), aheadOf(nil, nil)}
		differ(r, all)
		for _, w := range all {
			r.waits(w)
		}
		if dialed := r.reserves(2); dialed[2] != len(all) {
			t.Errorf("%s: %d connections are dialed for %d sessions", name, dialed[2], len(all))
		}
	}
}

// A client that comes later does not take the connection that makes room for such a session for ever.
func TestAvoidIsNotOvertaken(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(4, 0), varied(2, 0))
	left, next := r.pools[0], r.pools[1]
	next.KeepWarm("a")
	next.fill(2)
	w := aheadOf(left, nil)
	w.Variant = "b"
	r.waits(w)
	r.maxOvertaken = 0
	client := r.waitFor("a")
	left.work()
	r.got(client, left)
}
