package loop

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTimersFireInOrder(t *testing.T) {
	l := group(t, 1).Pick()
	const n = 300
	type firing struct {
		when  Instant
		early bool
	}
	var fired []firing
	done := make(chan struct{})
	timers := make([]Timer, n)
	call(t, l, func() {
		random := rand.New(rand.NewPCG(3, 4))
		for i := range timers {
			timer := &timers[i]
			timer.Set(l, time.Duration(random.IntN(20_000))*time.Microsecond, func() {
				fired = append(fired, firing{timer.when, Now() < timer.when})
				if timer.Active() {
					t.Error("active while it fires")
				}
				if len(fired) == n {
					close(done)
				}
			})
			if !timer.Active() {
				t.Error("not active after Set")
			}
		}
	})
	wait(t, done, "the timers")
	if !slices.IsSortedFunc(fired, func(a, b firing) int { return cmp.Compare(a.when, b.when) }) {
		t.Error("out of order")
	}
	if slices.ContainsFunc(fired, func(f firing) bool { return f.early }) {
		t.Error("fired too early")
	}
}

func TestTimerStopAndSetAgain(t *testing.T) {
	l := group(t, 1).Pick()
	var stopped, changed, unset, last Timer
	var calls []string
	done := make(chan struct{})
	note := func(text string) func() { return func() { calls = append(calls, text) } }
	call(t, l, func() {
		unset.Stop() // a timer that is not set may be stopped
		stopped.Set(l, time.Millisecond, note("stopped"))
		changed.Set(l, time.Hour, note("too late"))
		changed.Set(l, 2*time.Millisecond, note("changed"))
		last.Set(l, time.Millisecond, note("too early"))
		last.Set(l, 5*time.Millisecond, func() {
			calls = append(calls, "last")
			close(done)
		})
		stopped.Stop()
		stopped.Stop()
		if stopped.Active() || unset.Active() || !changed.Active() || !last.Active() {
			t.Error("Active is wrong")
		}
	})
	wait(t, done, "the last timer")
	if !slices.Equal(calls, []string{"changed", "last"}) {
		t.Errorf("called: %v", calls)
	}
	call(t, l, func() {
		if changed.Active() || last.Active() || len(l.timers.heap) != 0 {
			t.Error("still set after firing")
		}
	})
}

// Stopping the first timer leaves the loop's alarm set too early; the second must fire all the same.
func TestTimerBehindAStoppedOne(t *testing.T) {
	l := group(t, 1).Pick()
	var first, second, third Timer
	done := make(chan string, 3)
	call(t, l, func() {
		first.Set(l, time.Millisecond, func() { done <- "first" })
		second.Set(l, 10*time.Millisecond, func() { done <- "second" })
		third.Set(l, 20*time.Millisecond, func() { done <- "third" })
		first.Stop()
	})
	if got := wait(t, done, "a timer"); got != "second" {
		t.Errorf("%s fired", got)
	}
	if got := wait(t, done, "a timer"); got != "third" {
		t.Errorf("%s fired", got)
	}
}

// A timer that is due before the one that the alarm is set for must move the alarm.
func TestTimerInFrontOfAnother(t *testing.T) {
	l := group(t, 1).Pick()
	var long, short Timer
	done := make(chan struct{})
	call(t, l, func() {
		long.Set(l, time.Hour, func() { t.Error("the later one fired") })
		short.Set(l, 5*time.Millisecond, func() { close(done) })
	})
	wait(t, done, "the shorter timer")
}

// Functions of timers set, stop and move timers themselves.
func TestTimersWithinTimers(t *testing.T) {
	l := group(t, 1).Pick()
	var chain, victim, now Timer
	n := 0
	done := make(chan struct{})
	var next func()
	next = func() {
		if n++; n < 50 {
			chain.Set(l, time.Duration(n%3)*time.Millisecond, next)
			return
		}
		close(done)
	}
	call(t, l, func() {
		// Both are due in the same round; the one that comes first stops the other.
		now.Set(l, 0, func() { victim.Stop() })
		victim.Set(l, 0, func() { t.Error("called though stopped") })
		victim.when = now.when + 1
		chain.Set(l, 0, next)
	})
	wait(t, done, "the chain")
}

func TestTimerIsTakenToAnotherLoop(t *testing.T) {
	g := group(t, 2)
	w := watchLoops(t, g)
	from, to := g.Loops()[0], g.Loops()[1]
	var timer, unset Timer
	fired := make(chan Instant, 2)
	var when Instant
	call(t, from, func() {
		if unset.Take() {
			t.Error("took a timer that is not set")
		}
		timer.Set(from, 20*time.Millisecond, func() {
			w.check(to)
			fired <- Now()
		})
		when = timer.when
		if !timer.Take() || timer.Active() || timer.Take() {
			t.Error("not taken, or taken twice")
		}
	})
	settle(t, from)
	call(t, to, func() {
		timer.Put(to)
		if !timer.Active() || timer.when != when {
			t.Errorf("active %v, due at %v; want %v", timer.Active(), timer.when, when)
		}
	})
	if at := wait(t, fired, "the timer"); at < when {
		t.Error("fired too early")
	}
	settle(t, from)
	if len(fired) > 0 {
		t.Error("fired twice")
	}
}

func TestTimersOfAStoppedLoopAreSilent(t *testing.T) {
	g := group(t, 1)
	l := g.Pick()
	var timer Timer
	call(t, l, func() { timer.Set(l, time.Hour, func() { t.Error("called") }) })
	l.stop()
	if l.timers.alarm.Stop() {
		t.Error("the alarm was still set")
	}
}

// Timers that may be rough ring together, never too early and hardly late.
func TestTimersRingTogether(t *testing.T) {
	l := group(t, 1).Pick()
	call(t, l, func() {
		rings := make(map[Instant]bool)
		for i := range 1000 {
			var timer Timer
			d := time.Hour + time.Duration(i)*time.Millisecond
			earliest := Now().After(d)
			timer.SetRoughly(l, d, func() {})
			if timer.when < earliest || timer.when > Now().After(d)+together {
				t.Errorf("asked for %v, set for %v", earliest, timer.when)
			}
			rings[timer.when] = true
			timer.Stop()
		}
		if len(rings) > 12 {
			t.Errorf("1000 timers within a second ring at %d times", len(rings))
		}
	})
}
