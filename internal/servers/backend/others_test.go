package backend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// How the workers of backends that serve the same clients get out of each other's way.

// withOther runs f in a bubble with two backends of one group, of which nothing is kept warm. The first would be the one to
// dial: its cap is larger.
func withOther(t *testing.T, change func(first, second *fake), f func(group *pool.Group[int], first, second *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		group := pool.NewGroup[int](pool.Options{Queue: 100})
		var both []*fake
		for i, limit := range []int{100, 10} {
			fake := newFake(t, group, pool.Settings{Cap: limit})
			fake.first = i * 1000
			both = append(both, fake)
			t.Cleanup(fake.end)
		}
		change(both[0], both[1])
		for _, fake := range both {
			go fake.worker.run()
		}
		synctest.Wait()
		f(group, both[0], both[1])
	})
}

// wait has a number of clients wait.
func wait(t *testing.T, group *pool.Group[int], clients int) {
	t.Helper()
	for range clients {
		if _, ok, err := group.Acquire(new(pool.Waiter[int])); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// A backend that dials as many as it may leaves the other clients to the others.
func TestOtherDialsWhileBusy(t *testing.T) {
	t.Parallel()
	withOther(t, func(first, second *fake) {
		first.parallel(2)
		first.accept(time.Hour)
		second.accept(time.Second)
	}, func(group *pool.Group[int], first, second *fake) {
		wait(t, group, 5)
		first.after(2 * time.Second)
		if s := first.pool.Stats(); s.Dialing != 2 {
			t.Errorf("first: %+v", s)
		}
		second.expect(0, 3)
		if q := group.Queue(); q.Waiting != 2 {
			t.Errorf("queue: %+v", q)
		}
	})
}

// While one waits to dial again after a failure, the other dials; no client waits for the one that fails.
func TestOtherDialsWhileFailing(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*fake){
		"refused":         func(f *fake) { f.refuse(0) },
		"circuit is open": func(f *fake) { f.limit(func(l *limits) { l.Failures = 1 }); f.refuse(0) },
		"probe fails":     func(f *fake) { f.accept(time.Hour); f.worker.probed(false, "500") },
		"draining":        func(f *fake) { f.accept(time.Hour); f.pool.SetMode(pool.Draining) },
		"disabled":        func(f *fake) { f.accept(time.Hour); f.pool.SetMode(pool.Disabled) },
	} {
		t.Run(name, func(t *testing.T) {
			withOther(t, func(first, _ *fake) { fail(first) }, func(group *pool.Group[int], first, second *fake) {
				for n := range 5 {
					wait(t, group, 1)
					first.after(0)
					second.expect(0, n+1) // at once
					first.after(100 * time.Millisecond)
				}
			})
		})
	}
}
