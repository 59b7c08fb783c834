package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// How the worker retires idle connections that should not be there.

// What is idle beyond the warm connections is retired when it has not been used for a while, and not before.
func TestShrinksWhenIdle(t *testing.T) {
	t.Parallel()
	const maxIdle = 40 * time.Second
	inBubble(t, pool.Settings{Cap: 6, Warm: 2}, func(f *fake) { f.limit(func(l *limits) { l.maxIdle = maxIdle }) }, func(f *fake) {
		var held []int
		for range 5 {
			held = append(held, f.lease())
		}
		f.expect(1, 5)
		f.after(time.Hour)
		f.expect(1, 5) // what is leased is never touched
		f.giveBack(held[:2]...)
		f.after(20 * time.Second)
		f.giveBack(held[2:]...)
		f.after(15 * time.Second)
		f.expect(5, 0) // the one that had been idle for an hour is gone; the first two have been for 35 s
		f.after(5*time.Second + maxIdle/4)
		f.expect(3, 0)
		f.after(20 * time.Second)
		f.expect(2, 0)
		f.after(time.Hour)
		f.expect(2, 0)
		if number := f.lease(); number != held[4] { // those that were used last have stayed
			t.Errorf("leased connection %d; want %d", number, held[4])
		}
		if s := f.pool.Stats(); s.Totals.Reasons[pool.Surplus] != 4 || s.Totals.Dialed != 7 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// With no time to wait, it is retired at once.
func TestShrinksAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 1}, func(f *fake) { f.limit(func(l *limits) { l.maxIdle = 0 }) }, func(f *fake) {
		held := []int{f.lease(), f.lease()}
		f.expect(1, 2)
		f.giveBack(held...)
		f.expect(1, 0)
	})
}

// When fewer are to be warm, the others go after their time.
func TestWarmIsLowered(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 8, Warm: 6}, func(f *fake) { f.limit(func(l *limits) { l.maxIdle = time.Minute }) }, func(f *fake) {
		f.after(30 * time.Second)
		f.pool.Set(pool.Settings{Cap: 8, Warm: 2, Weight: 1})
		f.after(0)
		f.expect(6, 0)
		f.after(time.Minute)
		f.expect(2, 0)
		f.pool.Set(pool.Settings{Cap: 8, Warm: 5, Weight: 1})
		f.after(0)
		f.expect(5, 0)
		f.after(2 * time.Minute)
		f.pool.Set(pool.Settings{Cap: 8, Weight: 1})
		f.after(0)
		f.expect(0, 0)
	})
}

// When the cap is lowered, what is idle goes at once; what is leased is not touched, and nothing is added until it fits.
func TestCapIsLowered(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 8, Warm: 8}, nil, func(f *fake) {
		held := []int{f.lease(), f.lease(), f.lease()}
		f.expect(5, 3)
		limit := func(n int) {
			f.pool.Set(pool.Settings{Cap: n, Warm: 8, Weight: 1})
			f.after(0)
		}
		limit(5)
		f.expect(2, 3)
		limit(2)
		f.expect(0, 3)
		begun, _ := f.attempts()
		f.giveBack(held[0])
		f.expect(0, 2)
		f.after(time.Hour)
		reset(f.slot(held[1])) // one that is being reset is not touched either
		limit(1)
		if s := f.pool.Stats(); s.Leased != 1 || s.Resetting != 1 || s.Used() != 2 {
			t.Errorf("stats: %+v", s)
		}
		f.giveBack(held[1])
		f.expect(0, 1)
		f.giveBack(held[2])
		f.expect(1, 0)
		if now, _ := f.attempts(); len(now) != len(begun) {
			t.Errorf("%d dials", len(now)-len(begun))
		}
		limit(3)
		f.expect(3, 0)
	})
}

// A backend that is drained keeps its idle connections, but none is leased or dialed.
func TestDraining(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, nil, func(f *fake) {
		number := f.lease()
		f.expect(3, 1)
		f.pool.SetMode(pool.Draining)
		f.after(0)
		if _, ok := f.tryLease(); ok {
			t.Error("leased from a backend that is drained")
		}
		f.expect(3, 1)
		f.giveBack(number)
		f.lose(1)
		f.lose(2)
		f.after(time.Minute)
		f.expect(2, 0)
		var w pool.Waiter[int]
		_, _, _ = f.group.Acquire(&w)
		f.after(time.Minute)
		if q := f.group.Queue(); q.Waiting != 1 {
			t.Errorf("queue: %+v", q)
		}
		f.pool.SetMode(pool.Enabled)
		f.after(0)
		f.expect(3, 1)
	})
}

// A backend that is disabled loses all connections but those in use, and then those.
func TestDisabled(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, func(f *fake) { f.accept(time.Second) }, func(f *fake) {
		f.after(2 * time.Second)
		number := f.lease()
		f.pool.SetMode(pool.Disabled) // one is being dialed
		f.after(2 * time.Second)
		f.expect(0, 1)
		f.after(time.Hour)
		f.expect(0, 1)
		f.giveBack(number)
		f.expect(0, 0)
		if s := f.pool.Stats(); s.Totals.Reasons[pool.Withdrawn] != 4 || s.Totals.Discarded != 0 {
			t.Errorf("stats: %+v", s)
		}
		f.pool.SetMode(pool.Enabled)
		f.after(2 * time.Second)
		f.expect(3, 0)
	})
}
