package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// What the worker makes of a server that cannot be reached, or that accepts connections only to close them.

const (
	reachable    = "INFO backend reachable"
	notReachable = "WARN backend not reachable, trying again: "
	opened       = "WARN backend taken out of service, circuit open: "
	closedAgain  = "INFO backend back in service, circuit closed"
	lostEarly    = "connection lost before it served a session: closed"
)

// While dialing fails, one attempt at a time is made, each after a wait that is random within a bound which doubles; those
// that failed together were one.
func TestOneAttemptAtATimeWhileFailing(t *testing.T) {
	t.Parallel()
	const takes = 10 * time.Millisecond
	inBubble(t, pool.Settings{Cap: 16, Warm: 16}, func(f *fake) {
		f.limit(func(l *limits) { l.Failures = 1 << 30 })
		f.refuse(takes)
	}, func(f *fake) {
		f.after(takes)
		begun, peak := f.attempts()
		if len(begun) < 16 || peak != 16 {
			t.Fatalf("%d dials, %d of them at once; want 16", len(begun), peak)
		}
		f.attempts()
		f.after(2 * time.Hour)
		begun, peak = f.attempts()
		if peak != 1 {
			t.Errorf("%d attempts at a time", peak)
		}
		begun = begun[15:]
		total, longest := time.Duration(0), time.Duration(0)
		for n := range len(begun) - 1 {
			bound := health.LastBackoff
			if n < 6 {
				bound = health.FirstBackoff << n
			}
			wait := begun[n+1].Sub(begun[n]) - takes
			if wait < 0 || wait > bound {
				t.Errorf("%v after %d failures; want at most %v", wait, n+1, bound)
			}
			total, longest = total+wait, max(longest, wait)
		}
		// The mean of some 1,440 has a standard deviation of 0.08 s.
		if mean := total / time.Duration(len(begun)-1); mean < 4400*time.Millisecond || mean > 5600*time.Millisecond || longest < 9*time.Second {
			t.Errorf("%v on the average, %v at most; want half of %v", mean, longest, health.LastBackoff)
		}
		if s := f.pool.Stats(); !s.Usable || s.Totals.DialFailed != uint64(len(begun)+15) {
			t.Errorf("%d dials: %+v", len(begun)+15, s)
		}
		f.log.expect(t, notReachable+"refused")
	})
}

// After a number of failures in a row the circuit opens: not even what is idle is leased. It is tried now and then by one
// dial, and closes when that succeeds.
func TestCircuitOpens(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.limit(func(l *limits) { l.Failures = 3 }) }, func(f *fake) {
		f.refuse(time.Second)
		held := f.lease()
		f.after(time.Second) // the first failure
		h := f.report.get()
		if h.Reachable || h.Reason != "refused" || h.Circuit != "closed" || !h.Since.Equal(time.Now()) {
			t.Errorf("health: %+v", h)
		}
		if s := f.pool.Stats(); !s.Usable || s.Idle != 1 {
			t.Fatalf("stats: %+v", s)
		}
		f.until("the circuit opens", func() bool { return f.report.get().Circuit != "closed" }) // or half-open at once
		if s := f.pool.Stats(); s.Usable || s.Idle != 1 || s.Totals.DialFailed != 3 {
			t.Errorf("stats: %+v", s)
		}
		opening := time.Now()
		if h := f.report.get(); h.CircuitReason != "refused" || h.CircuitOpened != 1 || h.CircuitSince.Before(opening.Add(-10*time.Millisecond)) {
			t.Errorf("health: %+v", h)
		}
		if _, ok := f.tryLease(); ok {
			t.Error("leased from a backend whose circuit is open")
		}
		f.attempts()
		f.after(10 * time.Minute) // trials, each of which fails
		if begun, peak := f.attempts(); peak != 1 || len(begun) < 30 {
			t.Errorf("%d dials, %d at once", len(begun), peak)
		}
		if h := f.report.get(); h.CircuitOpened != 1 || h.CircuitSince.After(opening) {
			t.Errorf("a trial that failed counts as another opening: %+v", h)
		}
		f.log.expect(t, reachable, notReachable+"refused", opened+"refused")

		f.until("a trial runs", func() bool { return f.report.get().Circuit == "half-open" })
		f.accept(time.Second)
		f.until("the circuit closes", func() bool { return f.report.get().Circuit == "closed" })
		f.after(time.Minute)
		if h := f.report.get(); !h.Reachable || h.Reason != "" || h.CircuitReason != "" {
			t.Errorf("health: %+v", h)
		}
		f.expect(2, 1)
		f.giveBack(held)
		f.lease()
		f.log.expect(t, reachable, notReachable+"refused", opened+"refused", closedAgain, reachable)
	})
}

// After a recovery, the dials at once double with each that succeeds, up to the limit.
func TestDialsDoubleAfterRecovery(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 100, Warm: 100}, func(f *fake) {
		f.parallel(8)
		f.refuse(0)
	}, func(f *fake) {
		f.after(time.Minute)
		f.accept(time.Second)
		f.until("an attempt", func() bool { s := f.pool.Stats(); return s.Dialing > 0 })
		f.after(time.Second / 2)
		for round, most := range []int{1, 2, 8, 8, 8} {
			if s := f.pool.Stats(); s.Dialing > most || s.Dialing < min(1<<round, 8) {
				t.Errorf("round %d: %d dials at once; want at most %d", round, s.Dialing, most)
			}
			f.after(time.Second)
		}
	})
}

// A server that accepts connections and closes them at once counts as not reachable from the third in a row on. It is
// tried ever more seldom, and taken out of service like one that refuses.
func TestProbation(t *testing.T) {
	t.Parallel()
	for _, lasts := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond} {
		inBubble(t, pool.Settings{Cap: 4, Warm: 1}, func(f *fake) { f.lasts = lasts }, func(f *fake) {
			f.after(2*lasts + lasts/2)
			f.log.expect(t, reachable) // two may be bad luck
			f.after(lasts)
			f.log.expect(t, reachable, notReachable+lostEarly)
			if h := f.report.get(); h.Reachable || h.Reason != lostEarly {
				t.Errorf("health: %+v", h)
			}
			f.after(time.Hour)
			f.log.expect(t, reachable, notReachable+lostEarly, opened+lostEarly)
			if begun, _ := f.attempts(); len(begun) < 100 || len(begun) > 800 {
				t.Errorf("%d dials in an hour", len(begun))
			}
			if s := f.pool.Stats(); s.Usable {
				t.Errorf("stats: %+v", s)
			}
			f.set(func() { f.lasts = 0 })
			f.after(time.Minute)
			f.expect(1, 0)
			f.log.expect(t, reachable, notReachable+lostEarly, opened+lostEarly, closedAgain, reachable)
			if s := f.pool.Stats(); !s.Usable {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

// Connections that were lost are forgotten when another lasts for a second, or when one serves a session.
func TestProbationIsPassed(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, nil, func(f *fake) {
		for number := 1; number < 20; number += 2 { // two at a time, never three in a row
			f.lose(number)
			f.lose(number + 1)
			f.after(1100 * time.Millisecond)
			f.expect(3, 0)
		}
		f.log.expect(t, reachable)
	})
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, nil, func(f *fake) {
		for number := 1; number < 20; number++ { // all within a second
			f.lose(number)
			f.after(0)
			f.giveBack(f.lease())
		}
		f.log.expect(t, reachable)
	})
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		f.lose(1)
		f.lose(2)
		f.after(0)
		f.lose(3)
		f.after(0)
		number, ok, _ := f.group.Acquire(new(pool.Waiter[int]))
		if f.after(0); !ok {
			t.Fatal("nothing to lease")
		}
		f.log.expect(t, reachable, notReachable+lostEarly)
		f.worker.serves() // the fourth serves a session
		f.after(0)
		f.log.expect(t, reachable, notReachable+lostEarly, reachable)
		f.giveBack(number)
		f.after(0)
		f.expect(3, 0)
	})
}

// What was established long ago, or has served a session, may end: that is no failure.
func TestLossIsNoFailure(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.lasts = 1001 * time.Millisecond }, func(f *fake) {
		f.after(time.Minute)
		f.log.expect(t, reachable)
		if begun, _ := f.attempts(); len(begun) < 100 {
			t.Errorf("%d dials", len(begun))
		}
	})
}
