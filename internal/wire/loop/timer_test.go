package loop

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// funcTimer is a timer that owns itself, and calls a function.
type funcTimer struct {
	Timer
	loop *Loop
	f    func()
}

// call calls f on l after d.
func (t *funcTimer) call(l *Loop, d time.Duration, f func()) {
	t.Stop()
	t.loop, t.f = l, f
	t.Set(t, d, 0)
}

// Loop implements [Owner].
func (t *funcTimer) Loop() *Loop { return t.loop }

// Expired implements [Owner].
func (t *funcTimer) Expired(*Timer) { t.f() }

func TestTimersFireInOrder(t *testing.T) {
	l := group(t, 1).Pick()
	const n = 300
	type firing struct {
		when  Instant
		early bool
	}
	var fired []firing
	done := make(chan struct{})
	timers := make([]funcTimer, n)
	call(t, l, func() {
		random := rand.New(rand.NewPCG(3, 4))
		for i := range timers {
			timer := &timers[i]
			timer.call(l, time.Duration(random.IntN(20_000))*time.Microsecond, func() {
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
	wstest.Receive(t, done, "the timers")
	if !slices.IsSortedFunc(fired, func(a, b firing) int { return cmp.Compare(a.when, b.when) }) {
		t.Error("out of order")
	}
	if slices.ContainsFunc(fired, func(f firing) bool { return f.early }) {
		t.Error("fired too early")
	}
}

func TestTimerStopAndSetAgain(t *testing.T) {
	l := group(t, 1).Pick()
	var stopped, changed, unset, last funcTimer
	var calls []string
	done := make(chan struct{})
	note := func(text string) func() { return func() { calls = append(calls, text) } }
	call(t, l, func() {
		unset.Stop() // a timer that is not set may be stopped
		stopped.call(l, time.Millisecond, note("stopped"))
		changed.call(l, time.Hour, note("too late"))
		changed.call(l, 2*time.Millisecond, note("changed"))
		last.call(l, time.Millisecond, note("too early"))
		last.call(l, 5*time.Millisecond, func() {
			calls = append(calls, "last")
			close(done)
		})
		stopped.Stop()
		stopped.Stop()
		if stopped.Active() || unset.Active() || !changed.Active() || !last.Active() {
			t.Error("Active is wrong")
		}
	})
	wstest.Receive(t, done, "the last timer")
	if !slices.Equal(calls, []string{"changed", "last"}) {
		t.Errorf("called: %v", calls)
	}
	call(t, l, func() {
		if changed.Active() || last.Active() || len(l.timers.heap) != 0 {
			t.Error("still set after firing")
		}
	})
}

// Stopping the first timer leaves the alarm of the loop set too early; the second timer must expire all the same.
func TestTimerBehindAStoppedOne(t *testing.T) {
	l := group(t, 1).Pick()
	var first, second, third funcTimer
	done := make(chan string, 3)
	call(t, l, func() {
		first.call(l, time.Millisecond, func() { done <- "first" })
		second.call(l, 10*time.Millisecond, func() { done <- "second" })
		third.call(l, 20*time.Millisecond, func() { done <- "third" })
		first.Stop()
	})
	if got := wstest.Receive(t, done, "a timer"); got != "second" {
		t.Errorf("%s fired", got)
	}
	if got := wstest.Receive(t, done, "a timer"); got != "third" {
		t.Errorf("%s fired", got)
	}
}

// A timer that is due before the one that the alarm is set for must move the alarm.
func TestTimerInFrontOfAnother(t *testing.T) {
	l := group(t, 1).Pick()
	var long, short funcTimer
	done := make(chan struct{})
	call(t, l, func() {
		long.call(l, time.Hour, func() { t.Error("the later one fired") })
		short.call(l, 5*time.Millisecond, func() { close(done) })
	})
	wstest.Receive(t, done, "the shorter timer")
}

// Owners set and stop timers when one expires.
func TestTimersWithinTimers(t *testing.T) {
	l := group(t, 1).Pick()
	var chain, victim, now funcTimer
	n := 0
	done := make(chan struct{})
	var next func()
	next = func() {
		if n++; n < 50 {
			chain.call(l, time.Duration(n%3)*time.Millisecond, next)
			return
		}
		close(done)
	}
	call(t, l, func() {
		// Both are due in the same round; the one that comes first stops the other.
		now.call(l, 0, func() { victim.Stop() })
		victim.call(l, 0, func() { t.Error("called though stopped") })
		victim.when = now.when + 1
		chain.call(l, 0, next)
	})
	wstest.Receive(t, done, "the chain")
}

func TestTimerIsTakenToAnotherLoop(t *testing.T) {
	g := group(t, 2)
	w := goroutinesOf(t, g)
	from, to := g.Loops()[0], g.Loops()[1]
	var timer, unset funcTimer
	fired := make(chan Instant, 2)
	var when Instant
	call(t, from, func() {
		unset.loop = from
		unset.Take()
		timer.call(from, 20*time.Millisecond, func() {
			w.check(to)
			fired <- Now()
		})
		when = timer.when
		timer.Take()
		timer.Take()
		if timer.Active() {
			t.Error("active though taken")
		}
	})
	settle(t, from)
	call(t, to, func() {
		timer.loop, unset.loop = to, to
		timer.Put()
		unset.Put()
		if !timer.Active() || timer.when != when {
			t.Errorf("active %v, due at %v; want %v", timer.Active(), timer.when, when)
		}
		if unset.Active() {
			t.Error("a timer that was not set is set now")
		}
	})
	if at := wstest.Receive(t, fired, "the timer"); at < when {
		t.Error("fired too early")
	}
	settle(t, from)
	if len(fired) > 0 {
		t.Error("fired twice")
	}
}

// A taken timer that is stopped is not set again.
func TestTakenTimerIsStopped(t *testing.T) {
	l := group(t, 1).Pick()
	var timer funcTimer
	call(t, l, func() {
		timer.call(l, time.Hour, func() {})
		timer.Take()
		timer.Stop()
		timer.Put()
		if timer.Active() {
			t.Error("set again")
		}
	})
}

// timed is a handler that passes on what its connection's timers were set for.
type timed struct {
	script
	expired chan Purpose
}

// Expired implements [TimerHandler].
func (h *timed) Expired(_ *Conn, t *Timer) { h.expired <- t.Purpose() }

// A connection's timers go to the handler that it has when they expire, and move with the connection.
func TestTimersOfAConnection(t *testing.T) {
	g := group(t, 2)
	from, to := g.Loops()[0], g.Loops()[1]
	near, _ := wstest.Pair(t)
	first, second := &timed{expired: make(chan Purpose, 1)}, &timed{expired: make(chan Purpose, 1)}
	c := add(t, from, near, first, nil)
	var timer, other Timer
	on(t, c, func() { timer.Set(c, 0, 3) })
	if p := wstest.Receive(t, first.expired, "the timer"); p != 3 {
		t.Errorf("set for 3, expired for %d", p)
	}
	on(t, c, func() {
		timer.Set(c, time.Hour, 4)
		other.Set(c, 5*time.Millisecond, 5)
		c.SetHandler(second)
		timer.Take()
		other.Take()
		Move(to, func() { timer.Put(); other.Put() }, c)
	})
	if p := wstest.Receive(t, second.expired, "the other timer"); p != 5 {
		t.Errorf("set for 5, expired for %d", p)
	}
	on(t, c, func() {
		if !timer.Active() || len(to.timers.heap) != 1 {
			t.Error("the first timer is not set on the new loop")
		}
		timer.Stop()
	})
	call(t, from, func() {
		if len(from.timers.heap) != 0 {
			t.Error("a timer is still set on the former loop")
		}
	})
}

func TestTimersOfAStoppedLoopAreSilent(t *testing.T) {
	g := group(t, 1)
	l := g.Pick()
	var timer funcTimer
	call(t, l, func() { timer.call(l, time.Hour, func() { t.Error("called") }) })
	l.stop()
	if l.timers.alarm.Stop() {
		t.Error("the alarm was still set")
	}
}

// Timers set roughly expire together, never too early, and at most a tenth of a second late.
func TestTimersExpireTogether(t *testing.T) {
	l := group(t, 1).Pick()
	call(t, l, func() {
		rings := make(map[Instant]bool)
		for i := range 1000 {
			timer := funcTimer{loop: l}
			d := time.Hour + time.Duration(i)*time.Millisecond
			earliest := Now().After(d)
			timer.SetRoughly(&timer, d, 0)
			if timer.when < earliest || timer.when > Now().After(d)+rounding {
				t.Errorf("asked for %v, set for %v", earliest, timer.when)
			}
			rings[timer.when] = true
			timer.Stop()
		}
		if len(rings) > 12 {
			t.Errorf("1000 timers within a second expire at %d times", len(rings))
		}
	})
}
