package backend

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// How the worker brings a pool to its wanted size while the server is well.

// The wanted size is min(cap, leased + warm).
func TestWantedSize(t *testing.T) {
	t.Parallel()
	for _, s := range []pool.Settings{{Cap: 5, Warm: 2}, {Cap: 3, Warm: 3}, {Cap: 4, Warm: 9}, {Cap: 1, Warm: 1}} {
		inBubble(t, s, nil, func(f *fake) {
			f.expect(min(s.Warm, s.Cap), 0)
			var held []int
			for leased := 1; leased <= s.Cap; leased++ {
				held = append(held, f.lease())
				f.expect(min(s.Warm, s.Cap-leased), leased)
			}
			if _, ok := f.tryLease(); ok {
				t.Errorf("%+v: leased more than the cap", s)
			}
			f.after(time.Hour)
			f.expect(0, s.Cap)
			for len(held) > 0 { // those that are closed are replaced, as far as they are wanted
				number := held[0]
				held = held[1:]
				discard(f.slot(number), pool.Cut)
				f.close(number)
				f.after(0)
				f.expect(min(s.Warm, s.Cap-len(held)), len(held))
			}
			f.log.expect(t, "INFO backend reachable")
		})
	}
}

// permission is a [Permission].
type permission struct{ atomic.Bool }

func (p *permission) MayDial() bool { return p.Load() }

// While nothing may be dialed, nothing is: neither warm connections, nor for clients, nor as a trial. Soon after, everything is.
func TestMayNotDial(t *testing.T) {
	t.Parallel()
	may := new(permission)
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.worker.permission = may }, func(f *fake) {
		waiter := new(pool.Waiter[int])
		if _, ok, err := f.group.Acquire(waiter); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		f.after(time.Hour)
		if begun, _ := f.attempts(); len(begun) != 0 {
			t.Errorf("%d dials", len(begun))
		}
		may.Store(true)
		f.after(health.ShortPause)
		f.expect(2, 1)
		f.refuse(0)
		f.lose(1)
		f.lose(2)
		f.after(time.Minute)
		may.Store(false)
		before, _ := f.attempts()
		f.after(time.Hour)
		if after, _ := f.attempts(); len(after) != len(before) {
			t.Errorf("%d trials", len(after)-len(before))
		}
	})
}

// With nothing warm, nothing is dialed until a client comes.
func TestNothingWarm(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 3}, nil, func(f *fake) {
		f.after(time.Hour)
		f.expect(0, 0)
		if begun, _ := f.attempts(); len(begun) != 0 {
			t.Errorf("%d dials", len(begun))
		}
	})
}

// A number of dials run at once, and no more.
func TestDialsInParallel(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 10, Warm: 10}, func(f *fake) {
		f.parallel(4)
		f.accept(time.Second)
	}, func(f *fake) {
		f.after(time.Second / 2)
		for _, want := range []struct{ idle, dialing int }{{0, 4}, {4, 4}, {8, 2}, {10, 0}} {
			if s := f.pool.Stats(); s.Idle != want.idle || s.Dialing != want.dialing {
				t.Errorf("want %+v: %+v", want, s)
			}
			f.after(time.Second)
		}
		if _, peak := f.attempts(); peak != 4 {
			t.Errorf("%d dials at once; want 4", peak)
		}
	})
}

// The place of a connection is free when the server has seen its end, and not before.
func TestPlaceIsFreeWhenGone(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 2, Warm: 2}, func(f *fake) { f.closing = time.Minute }, func(f *fake) {
		f.lose(1)
		f.after(59 * time.Second)
		if s := f.pool.Stats(); s.Idle != 1 || s.Retiring != 1 || s.Dialing != 0 {
			t.Errorf("stats: %+v", s)
		}
		f.after(time.Second)
		f.expect(2, 0)
	})
}

// For clients that wait, connections are dialed though as many are warm as should be, but not more than clients.
func TestDialsForWaitingClients(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4}, func(f *fake) { f.accept(time.Second) }, func(f *fake) {
		waiters := make([]pool.Waiter[int], 6)
		join := func(w *pool.Waiter[int]) {
			if _, ok, err := f.group.Acquire(w); ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
		}
		join(&waiters[0])
		join(&waiters[1])
		f.after(time.Second / 2)
		if s := f.pool.Stats(); s.Dialing != 2 {
			t.Fatalf("two clients wait: %+v", s)
		}
		f.after(time.Second)
		f.expect(0, 2)
		held := []int{<-waiters[0].Ready(), <-waiters[1].Ready()}
		for i := range waiters[2:] {
			join(&waiters[2+i])
		}
		f.after(2 * time.Second)
		f.expect(0, 4) // the cap
		if q := f.group.Queue(); q.Waiting != 2 {
			t.Fatalf("queue: %+v", q)
		}
		f.giveBack(held...)
		f.expect(0, 4)
		if q := f.group.Queue(); q.Waiting != 0 || q.Totals.Served != 6 {
			t.Errorf("queue: %+v", q)
		}
	})
}

// One whose client has left while it was dialed is no longer wanted.
func TestClientLeavesWhileDialing(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4}, func(f *fake) {
		f.accept(time.Second)
		f.limit(func(l *limits) { l.maxIdle = 0 })
	}, func(f *fake) {
		var w pool.Waiter[int]
		_, _, _ = f.group.Acquire(&w)
		f.after(time.Second / 2)
		f.group.Leave(&w, pool.LeftEarly)
		f.after(time.Second)
		f.expect(0, 0)
		if s := f.pool.Stats(); s.Totals.Dialed != 1 || s.Totals.Reasons[pool.Surplus] != 1 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// While the worker is busy, a thousand signals are one.
func TestSignalsCoalesce(t *testing.T) {
	t.Parallel()
	var reviews atomic.Int32
	busy := make(chan struct{})
	inBubble(t, pool.Settings{Cap: 2, Warm: 1}, func(f *fake) {
		busy = make(chan struct{}) // of the bubble
		now := f.worker.now
		f.worker.now = func() pool.Instant {
			if reviews.Add(1); reviews.Load() == 10 {
				<-busy
			}
			return now()
		}
	}, func(f *fake) {
		for reviews.Load() < 10 { // the worker is in its tenth review then
			f.worker.signal()
			synctest.Wait()
		}
		for range 1000 {
			f.worker.signal()
			f.worker.tell(func(*health.Tracker) {})
		}
		close(busy)
		synctest.Wait()
		if n := reviews.Load(); n != 11 {
			t.Errorf("%d reviews after 1000 signals; want 1", n-10)
		}
	})
}

// Without any signal, the worker reviews the pool every 5 to 10 s.
func TestSafetyNet(t *testing.T) {
	t.Parallel()
	var reviews []time.Time
	inBubble(t, pool.Settings{Cap: 1}, func(f *fake) {
		now := f.worker.now
		f.limit(func(l *limits) { l.maxIdle = 0 })
		f.worker.now = func() pool.Instant {
			reviews = append(reviews, time.Now())
			return now()
		}
	}, func(f *fake) {
		f.after(10 * time.Minute)
		f.worker.stop(context.Background())
		for i, at := range reviews[1:] {
			if d := at.Sub(reviews[i]); d < reviewEvery || d > 2*reviewEvery {
				t.Errorf("%v between two reviews", d)
			}
		}
		if n := len(reviews); n < 60 || n > 121 {
			t.Errorf("%d reviews in ten minutes", n)
		}
	})
}
