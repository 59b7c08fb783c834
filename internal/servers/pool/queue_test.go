package pool

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Clients are served in the order in which they came, with whatever connection comes free first, of whichever backend.
func TestFirstComeFirstServed(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(2), capped(2))
	a, b := r.pools[0], r.pools[1]
	sessions := a.lease(2)
	dialing := b.dial()
	clients := []*Waiter[int]{r.wait(), r.wait(), r.wait(), r.wait()}
	for i, w := range clients {
		if w.Position() != i+1 {
			t.Errorf("client %d has position %d", i+1, w.Position())
		}
	}
	next := func(how string, want *Slot[int]) {
		t.Helper()
		if got := r.handed(clients[0]); got != want {
			t.Errorf("%s: the client was given connection %d; want %d", how, got.conn, want.conn)
		}
		if want.State() != Leased {
			t.Errorf("%s: the connection is %v", how, want.State())
		}
		clients = clients[1:]
		r.waiting(clients...)
	}
	giveBack(sessions[1])
	next("Return", sessions[1])
	r.filled(dialing)
	next("Filled", dialing)
	reset(sessions[0])
	r.waiting(clients...) // it is not clean yet
	giveBack(sessions[0])
	next("Return after Reset", sessions[0])
	discard(dialing, Cut)
	r.waiting(clients...)
	late := r.wait()
	if late.Position() != 2 {
		t.Errorf("the late client has position %d; want 2", late.Position())
	}
	clients = append(clients, late)
	giveBack(sessions[0]) // it serves one after the other
	next("Return", sessions[0])
	if got := sessions[0].Sessions(); got != 3 {
		t.Errorf("%d sessions; want 3", got)
	}
	a.expect(0, 0, 2, 0, 0)
	totals := a.Stats().Totals
	if totals.Leased != 5 || totals.Returned != 3 {
		t.Errorf("a lease that is handed over ends and begins: %+v", totals)
	}
}

// The queue has a bound, and who does not fit is told why.
func TestQueueBound(t *testing.T) {
	for limit, want := range map[int]error{0: ErrNoQueue, 1: ErrQueueFull, 3: ErrQueueFull} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r := newRig(t, Options{Queue: limit}, capped(1))
			session := r.pools[0].lease(1)[0]
			var first *Waiter[int]
			for i := range limit {
				if w := r.wait(); i == 0 {
					first = w
				}
			}
			for range 2 {
				w := &Waiter[int]{}
				r.expectSignals("a full queue", []int{}, func() {
					if _, ok, err := r.Acquire(w); ok || !errors.Is(err, want) {
						t.Errorf("Acquire: %v, %v; want %v", ok, err, want)
					}
				})
				if w.Position() != 0 {
					t.Errorf("position %d of a client that does not wait", w.Position())
				}
			}
			s := r.Queue()
			if s.Limit != limit || s.Waiting != limit || s.Totals.Queued != uint64(limit) || s.Totals.Full != 2 {
				t.Errorf("queue: %+v", s)
			}
			giveBack(session)
			if limit == 0 {
				r.lease()
				return
			}
			r.handed(first)
			r.wait() // there is a place again
		})
	}
}

// The queue's limit is for clients who wait while all connections are in use. Those whose connections are being dialed wait beside it, also
// while a new backend has no place yet or has not been probed, but not where no client may wait.
func TestQueueBoundWhileDialing(t *testing.T) {
	full := func(r *rig, waiting int) {
		t.Helper()
		if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrQueueFull) {
			t.Errorf("with %d clients waiting: %v; want the queue to be full", waiting, err)
		}
	}
	r := newRig(t, Options{Queue: 2}, Settings{Cap: 4, Weight: 1, Shared: true})
	p := r.pools[0]
	p.SetUsable(false)
	var first []*Waiter[int]
	for range 6 {
		first = append(first, r.wait())
	}
	full(r, 6)
	p.SetUsable(true)
	p.Set(Settings{Cap: 4, Weight: 1, Shared: true, Grant: 4})
	p.fill(4)
	for _, w := range first[:4] {
		r.handed(w)
	}
	r.waiting(first[4:]...)
	full(r, 2) // all places are in use
	p.SetCeiling(5)
	p.Set(Settings{Cap: 8, Weight: 1, Shared: true, Grant: 8})
	r.wait() // one more is dialed
	full(r, 3)
	p.SetUsable(false)
	full(r, 3)
	p.SetUsable(true)
	r.Pause()
	if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrPaused) {
		t.Errorf("paused: %v", err)
	}

	r = newRig(t, Options{}, capped(4))
	if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrNoQueue) {
		t.Errorf("without a queue: %v", err)
	}
	r = newRig(t, Options{Queue: 1}, capped(4)) // places that are guaranteed to others do not count
	r.SetTenants(&TenantSettings{Guaranteed: map[string]int{"gold": 3}})
	r.wait()
	r.wait()
	if _, _, err := r.Acquire(&Waiter[int]{}); !errors.Is(err, ErrGuaranteed) && !errors.Is(err, ErrQueueFull) {
		t.Errorf("beside guaranteed places: %v", err)
	}
	for range 3 {
		r.comeFor("gold")
	}
	if s := r.Queue(); s.Waiting != 5 || s.Totals.Evicted != 0 {
		t.Errorf("a client lost its place although places were free: %+v", s)
	}
}

// Clients leave from any place in the queue, and the others keep their order.
func TestLeave(t *testing.T) {
	for mask := range 16 { // who of four leaves
		for reverse := range 2 { // and in which order
			r := newRig(t, Options{Queue: 5}, capped(1))
			session := r.pools[0].lease(1)[0]
			clients := []*Waiter[int]{r.wait(), r.wait(), r.wait(), r.wait()}
			var stay []*Waiter[int]
			for i := range clients {
				if reverse == 1 {
					i = 3 - i
				}
				if mask>>i&1 == 0 {
					continue
				}
				if n, leased := r.Leave(clients[i], LeftEarly); leased {
					t.Errorf("a client that left took connection %d along", n)
				}
			}
			for i, w := range clients {
				if mask>>i&1 == 0 {
					stay = append(stay, w)
				}
			}
			if got := r.Queue(); got.Waiting != len(stay) || got.Totals.Left != uint64(4-len(stay)) {
				t.Fatalf("queue: %+v; want %d to stay", got, len(stay))
			}
			stay = append(stay, r.wait()) // the end is where it should be
			for len(stay) > 0 {
				giveBack(session)
				if r.handed(stay[0]) != session {
					t.Error("given another connection")
				}
				stay = stay[1:]
				r.waiting(stay...)
			}
			giveBack(session)
			r.pools[0].expect(0, 1, 0, 0, 0)
		}
	}
}

// A connection that was handed to a client at the moment it left is the caller's to give back; the client was served.
func TestLeaveWhenHandedOver(t *testing.T) {
	r := newRig(t, Options{Queue: 2}, capped(1))
	session := r.pools[0].lease(1)[0]
	w, next := r.wait(), r.wait()
	giveBack(session)
	n, leased := r.Leave(w, TimedOut)
	if !leased || r.slots[n] != session || session.State() != Leased {
		t.Fatalf("connection %d, %v; it is %v", n, leased, session.State())
	}
	want := QueueTotals{Queued: 2, Served: 1}
	if got := r.Queue(); got.Totals != want || got.Waiting != 1 {
		t.Errorf("queue: %+v; want %+v", got, want)
	}
	r.waiting(next)
	giveBack(session)
	r.handed(next)
}

// Each departure is counted as what it is, and the times that clients have waited are known.
func TestQueueTotals(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1))
	session := r.pools[0].lease(1)[0]
	second := Instant(time.Second)
	r.clock = 100 * second
	clients := []*Waiter[int]{r.wait()}
	r.clock += 2 * second
	clients = append(clients, r.wait(), r.wait(), r.wait(), r.wait())
	r.clock += second
	if got := r.Queue(); got.OldestSeconds != 3 || got.Totals.WaitedSeconds != 0 {
		t.Errorf("queue: %+v; want the first to have waited 3 s", got)
	}
	giveBack(session)
	r.handed(clients[0])
	if got := r.Queue(); got.OldestSeconds != 1 || got.Totals.WaitedSeconds != 3 {
		t.Errorf("queue: %+v; want 3 s to have been waited, and 1 s by who is first now", got)
	}
	r.Leave(clients[1], TimedOut)
	r.Leave(clients[2], LeftEarly)
	r.Leave(clients[3], TurnedAway)
	r.clock += second
	giveBack(session)
	r.handed(clients[4])
	got, want := r.Queue(), QueueStats{Limit: 9, Totals: QueueTotals{
		Queued: 5, Served: 2, TimedOut: 1, Left: 1, TurnedAway: 1, WaitedSeconds: 5,
	}}
	if got != want {
		t.Errorf("queue: %+v;\nwant %+v", got, want)
	}
}

// A client that finds an idle connection does not wait, and is not counted as one that did.
func TestNoNeedToWait(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1))
	s := r.pools[0].connect()
	w := &Waiter[int]{}
	if n, ok, err := r.Acquire(w); !ok || err != nil || r.slots[n] != s {
		t.Errorf("Acquire: %d, %v, %v", n, ok, err)
	}
	if got, want := r.Queue(), (QueueStats{Limit: 9}); w.Position() != 0 || got != want {
		t.Errorf("position %d, queue %+v", w.Position(), got)
	}
}

// The default clock begins with the group and keeps running.
func TestDefaultClock(t *testing.T) {
	g := NewGroup[int](Options{})
	first := g.Now()
	if second := g.Now(); first < 0 || second < first || second > Instant(time.Hour) {
		t.Errorf("%d, then %d", first, second)
	}
}

// A client has one waiter, once: a second use would tear the queue.
func TestWaiterIsUsedOnce(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(1))
	session := r.pools[0].lease(1)[0]
	first, second := r.wait(), r.wait()
	again := func(when string, w *Waiter[int]) {
		t.Helper()
		if !panics(func() { _, _, _ = r.Acquire(w) }) {
			t.Errorf("a waiter was used again %s", when)
		}
	}
	again("while it waited", first)
	giveBack(session)
	again("when it had been served", first)
	r.handed(first)
	again("when it had its connection", first)
	r.Leave(second, LeftEarly)
	again("when it had left", second)
	if q := r.Queue(); q.Waiting != 0 || q.Totals.Queued != 2 {
		t.Errorf("queue: %+v", q)
	}
}

// Clients whom a full server has refused come before all that came later, in their own order, and however full the queue is.
func TestBackInTheQueue(t *testing.T) {
	r := newRig(t, Options{Queue: 2}, capped(1))
	session := r.pools[0].lease(1)[0]
	back := func(place uint64) *Waiter[int] {
		w := &Waiter[int]{Begun: true, Back: true, Place: place}
		if _, ok, err := r.Acquire(w); ok || err != nil {
			t.Fatal(ok, err)
		}
		return w
	}
	clients := []*Waiter[int]{r.wait(), r.wait()}
	first := back(0)
	second := back(0)
	if _, _, err := r.Acquire(new(Waiter[int])); !errors.Is(err, ErrQueueFull) {
		t.Errorf("a new client: %v", err)
	}
	giveBack(session)
	r.handed(first)
	again := back(first.Ticket()) // it is refused once more, before the second one's turn
	for i, w := range []*Waiter[int]{second, again, clients[0], clients[1]} {
		giveBack(session)
		if got := r.handed(w); got != session {
			t.Errorf("client %d got %v", i, got)
		}
	}
}

// A server that is held gets no session for a while.
func TestHeld(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, capped(1))
	session := r.pools[0].lease(1)[0]
	giveBack(session)
	r.pools[0].SetHeld(true)
	w := r.wait()
	r.waiting(w)
	r.pools[0].SetHeld(false)
	if got := r.handed(w); got != session {
		t.Errorf("the client got %v", got)
	}
}
