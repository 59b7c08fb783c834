package backend

import (
	"math"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// How a backend that breaks sessions, or whose probe fails, is taken out of service, and how it comes back.

// broken has n sessions in a row be broken.
func (f *fake) broken(n int) {
	for range n {
		f.worker.sessionEnded(health.SessionEnd{Fault: "backend vanished"}, f.worker.now())
	}
	f.after(0)
}

// trips has broken sessions open the circuit so often, before the worker is started.
func (f *fake) trips(n int) {
	t, now := f.worker.health, f.worker.now()
	for range n {
		for range 5 {
			t.SessionEnded(health.SessionEnd{Fault: "backend vanished"}, now)
		}
		t.Review(now, health.Connections{})
		now += pool.Instant(time.Minute)
		t.Review(now, health.Connections{})
		t.DialEnded(t.Dial(now), health.DialResult{Outcome: health.Established}, now)
	}
	t.Changes()
}

const fiveBroken = opened + "5 sessions in a row were broken: backend vanished"

// Sessions that are broken in a row trip the circuit, whatever dialing says; one that ends well lets the count begin anew.
func TestBrokenSessionsTrip(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		for range 5 {
			f.broken(4)
			f.worker.sessionEnded(health.SessionEnd{}, f.worker.now())
		}
		f.after(0)
		f.log.expect(t, reachable)
		f.broken(4)
		if s := f.pool.Stats(); !s.Usable {
			t.Errorf("stats: %+v", s)
		}
		f.broken(1)
		if s := f.pool.Stats(); s.Usable || s.Idle != 2 {
			t.Errorf("stats: %+v", s)
		}
		if h := f.report.get(); h.Circuit != "open" && h.Circuit != "half-open" || h.Broken != 25 || h.CircuitOpened != 1 || !h.Reachable {
			t.Errorf("health: %+v", h)
		}
		f.after(time.Minute)
		if s := f.pool.Stats(); !s.Usable {
			t.Errorf("stats: %+v", s)
		}
		f.log.expect(t, reachable, fiveBroken, closedAgain)
		f.broken(4) // from the beginning
		f.log.expect(t, reachable, fiveBroken, closedAgain)
		f.broken(1)
		f.after(time.Minute)
		f.log.expect(t, reachable, fiveBroken, closedAgain, fiveBroken, closedAgain)
	})
}

// The trial needs a place: when the pool is full, the idle connection that was used longest ago makes room, and only one.
func TestTrialMakesRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 3, Warm: 3}, func(f *fake) { f.closing = 10 * time.Second }, func(f *fake) {
		held := f.lease()
		f.refuse(0)
		f.broken(5)
		f.until("a place is made", func() bool { s := f.pool.Stats(); return s.Retiring > 0 })
		f.after(9 * time.Second)
		if s := f.pool.Stats(); s.Retiring != 1 || s.Idle != 1 || s.Totals.Reasons[pool.Suspected] != 1 {
			t.Errorf("stats: %+v", s)
		}
		f.after(10 * time.Minute) // trials that fail need no more room
		if s := f.pool.Stats(); s.Idle != 1 || s.Leased != 1 || s.Totals.Reasons[pool.Suspected] != 1 || s.Totals.DialFailed < 30 {
			t.Errorf("stats: %+v", s)
		}
		f.accept(0)
		f.after(time.Minute)
		f.expect(2, 1)
		f.giveBack(held)
		f.expect(3, 0)
	})
}

// When all connections are in use, the trial waits until a session ends.
func TestTrialWaitsForRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 2, Warm: 2}, nil, func(f *fake) {
		held := []int{f.lease(), f.lease()}
		f.broken(5)
		f.after(time.Hour)
		f.expect(0, 2)
		if h := f.report.get(); h.Circuit != "half-open" {
			t.Errorf("health: %+v", h)
		}
		f.giveBack(held[0])
		f.expect(1, 1)
		f.log.expect(t, reachable, fiveBroken, closedAgain)
		if s := f.pool.Stats(); s.Totals.Reasons[pool.Suspected] != 1 || s.Totals.Dialed != 3 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// A backend that is drained keeps its idle connections: there is no trial for which they would have to make room.
func TestNoTrialWhileDraining(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, nil, func(f *fake) {
		f.pool.SetMode(pool.Draining)
		f.broken(5)
		f.after(time.Hour)
		f.expect(3, 0)
		f.pool.SetMode(pool.Enabled)
		f.after(time.Minute)
		f.expect(3, 0)
		f.log.expect(t, reachable, fiveBroken, closedAgain)
	})
}

// The longer a server breaks sessions, the longer it is left alone; a session that ends well makes up for it.
func TestTripsAddUp(t *testing.T) {
	t.Parallel()
	for name, well := range map[string]bool{"no good session": false, "good sessions": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
				longest := time.Duration(0)
				for range 30 {
					tripped := time.Now()
					f.broken(5)
					f.until("it is back", func() bool { return f.pool.Stats().Usable })
					longest = max(longest, time.Since(tripped))
					if well {
						f.worker.sessionEnded(health.SessionEnd{}, f.worker.now())
					}
					f.after(time.Minute)
				}
				// The bound is 10 s from the seventh on: that all stay below 4 s is as good as impossible.
				if most := health.FirstBackoff + 10*time.Millisecond; well && longest > most || !well && longest < 4*time.Second {
					t.Errorf("out of service for up to %v", longest)
				}
			})
		})
	}
}

// However often the worker is signalled, one trial runs at a time.
func TestOneTrialAtATime(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		f.accept(time.Minute)
		f.attempts()
		f.broken(5)
		for range 50 {
			f.after(time.Second)
			f.worker.signal()
		}
		if begun, peak := f.attempts(); peak != 1 || len(begun) != 3 {
			t.Errorf("%d trials, %d at once", len(begun)-2, peak)
		}
		f.after(time.Minute)
		f.log.expect(t, reachable, fiveBroken, closedAgain)
	})
}

// A dial that was on its way when sessions tripped the circuit proves nothing when it succeeds.
func TestOldDialProvesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 1}, func(f *fake) { f.trips(20) }, func(f *fake) {
		f.accept(time.Minute)
		f.lose(1)
		f.after(0)
		f.worker.sessionEnded(health.SessionEnd{Fault: "backend vanished"}, f.worker.now())
		f.after(time.Minute - time.Microsecond)
		f.broken(4)
		f.after(time.Microsecond) // the trial comes after a wait of up to 10 s, which is shorter once in 10,000,000 runs
		if h := f.report.get(); h.Circuit == "closed" {
			t.Errorf("health: %+v", h)
		}
		f.after(2 * time.Minute)
		f.log.expect(t, fiveBroken, closedAgain)
	})
}

// A recovered backend gets its share of the clients back in ten steps.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	const rampTime = 20 * time.Second
	for name, takeOut := range map[string]func(*fake){
		"broken sessions": func(f *fake) { f.broken(5) },
		"its probe":       func(f *fake) { f.worker.probed(false, "500"); f.after(time.Minute); f.worker.probed(true, "") },
		"both": func(f *fake) {
			f.worker.probed(false, "500")
			f.broken(5)
			f.after(time.Minute)
			f.worker.probed(true, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, pool.Settings{Cap: 4, Warm: 2}, func(f *fake) { f.limit(func(l *limits) { l.SlowStart = rampTime }) }, func(f *fake) {
				if s := f.pool.Stats(); s.Ramp != 1 {
					t.Errorf("slow at the start: %+v", s)
				}
				takeOut(f)
				f.until("it is back", func() bool { return f.pool.Stats().Usable })
				back := time.Now()
				seen := make(map[float64]bool)
				for time.Since(back) < rampTime+time.Second {
					ramp := f.pool.Stats().Ramp
					seen[math.Round(ramp*100)/100] = true
					// It is looked at ten times in rampTime, and a step takes a ninth of it.
					due := 0.1 + 0.9*float64(time.Since(back))/float64(rampTime)
					if ramp > due+0.01 || ramp < min(due, 1)-0.2 {
						t.Fatalf("%v after %v", ramp, time.Since(back))
					}
					f.after(100 * time.Millisecond)
				}
				if s := f.pool.Stats(); s.Ramp != 1 || !seen[0.1] || len(seen) < 9 {
					t.Errorf("steps %v, stats: %+v", seen, s)
				}
			})
		})
	}
}

// Without a time for it, all of the share comes back at once.
func TestNoSlowStart(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		f.broken(5)
		f.until("it is back", func() bool { return f.pool.Stats().Usable })
		if s := f.pool.Stats(); s.Ramp != 1 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// While the probe fails nothing is leased, but the connections are kept.
func TestProbeTakesOutOfService(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		f.worker.probed(true, "")
		f.worker.probed(false, "500")
		f.after(0)
		var w pool.Waiter[int]
		if _, ok, _ := f.group.Acquire(&w); ok {
			t.Error("leased while the probe fails")
		}
		f.after(time.Hour)
		f.expect(2, 0)
		f.worker.probed(false, "502") // another reason is worth no line
		if h := f.report.get(); h.Probe != "down" || h.ProbeReason != "502" || !h.Reachable || h.Circuit != "closed" {
			t.Errorf("health: %+v", h)
		}
		f.worker.probed(true, "")
		f.after(0)
		f.expect(2, 1)
		if h := f.report.get(); h.Probe != "up" || h.ProbeReason != "" || !h.ProbeSince.Equal(time.Now()) {
			t.Errorf("health: %+v", h)
		}
		f.log.expect(t, reachable, "INFO backend probe succeeds", "WARN backend taken out of service, probe fails: 500",
			"INFO backend probe succeeds")
	})
}

// The circuit may close, and the probe succeed: it takes both.
func TestProbeAndCircuit(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 2}, nil, func(f *fake) {
		usable := func(want bool) {
			t.Helper()
			f.after(0)
			if s := f.pool.Stats(); s.Usable != want {
				t.Errorf("usable: %v", s.Usable)
			}
		}
		f.worker.probed(false, "500")
		f.broken(5)
		usable(false)
		var w pool.Waiter[int]
		_, _, _ = f.group.Acquire(&w)
		f.until("the circuit closes", func() bool { return f.report.get().Circuit == "closed" })
		usable(false)
		f.expect(3, 0) // with the one of the trial; not leased even for a moment
		f.worker.probed(true, "")
		usable(true)
		f.expect(2, 1)
		f.refuse(time.Hour)
		f.broken(5)
		f.worker.probed(true, "")
		usable(false)
		f.after(time.Minute)
		usable(false)
	})
}

// When the session that shows whether a stalled server works again stalls, too, no client that waits gets a connection there.
func TestTrialStalls(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 3, Warm: 3}, func(f *fake) {
		f.limit(func(l *limits) { l.StallTimeout, l.Failures = time.Second, 5 })
	}, func(f *fake) {
		stall := func() {
			f.worker.sessionStalled(health.Stall{Began: f.worker.now(), How: "no result"})
			f.after(0)
		}
		stall()
		if s := f.pool.Stats(); s.Usable {
			t.Fatalf("the server has not stalled: %+v", s)
		}
		f.after(health.FirstStallBackoff)
		f.lease()
		clients := make([]pool.Waiter[int], 2)
		for i := range clients {
			if _, leased, err := f.group.Acquire(&clients[i]); leased || err != nil {
				t.Fatalf("beside the trial: leased %v, %v", leased, err)
			}
		}
		stall()
		f.expect(2, 1)
		f.after(health.FirstStallBackoff * 2)
		f.expect(1, 2)
	})
}
