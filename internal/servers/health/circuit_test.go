package health

import (
	"testing"
	"time"
)

// The circuit by itself: it is told the time.

const noon = Instant(12 * time.Hour)

// event is something that a circuit is told, and what it must be like then.
type event struct {
	what     string
	at       time.Duration // after noon
	state    CircuitState
	failures int
	trips    int
}

// tell tells a circuit of an event. The time of the next attempt is random, so that a test which needs to be before or
// after it says so by name.
func (c *circuit) tell(t *testing.T, e event) {
	t.Helper()
	now := noon + Instant(e.at)
	switch e.what {
	case "fails":
		c.fail(now)
	case "fails with the last one":
		c.countAfter = now + 1
		c.fail(now)
	case "sessions break":
		c.trip(now, true)
	case "a session ends well":
		c.sessionWentWell()
	case "is established":
		c.established()
	case "is on probation":
		c.holdOff(now)
		if wait := c.wait(now, false); wait < Probation {
			t.Errorf("%+v: waits %v", e, wait)
		}
	case "must wait":
		c.retryAt = now + Instant(time.Second)
		if wait := c.wait(now, false); wait != time.Second {
			t.Errorf("%+v: waits %v", e, wait)
		}
	case "may be tried":
		c.retryAt = now
		if wait := c.wait(now, false); wait != 0 {
			t.Errorf("%+v: waits %v", e, wait)
		}
	default:
		t.Fatalf("no event is called %q", e.what)
	}
	if c.state != e.state || c.failures != e.failures || c.trips != e.trips {
		t.Errorf("%+v: %+v", e, *c)
	}
}

func TestCircuit(t *testing.T) {
	const minute = time.Minute
	for name, events := range map[string][]event{
		"it opens after a number of failures in a row": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"fails", 2 * minute, Closed, 2, 0},
			{"fails", 3 * minute, Open, 3, 0},
		},
		"a success in between, and they are not in a row": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"fails", 2 * minute, Closed, 2, 0},
			{"is established", 3 * minute, Closed, 0, 0},
			{"fails", 4 * minute, Closed, 1, 0},
			{"fails", 5 * minute, Closed, 2, 0},
		},
		"several that fail together are one": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"fails with the last one", 2 * minute, Closed, 1, 0},
			{"fails with the last one", 2 * minute, Closed, 1, 0},
			{"fails with the last one", 2 * minute, Closed, 1, 0},
			{"fails", 3 * minute, Closed, 2, 0},
		},
		"a closed circuit that may dial again is still closed": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"must wait", 1 * minute, Closed, 1, 0},
			{"may be tried", 2 * minute, Closed, 1, 0},
		},
		"an open one has its trial after a while, and closes when that succeeds": {
			{"sessions break", 1 * minute, Open, 0, 1},
			{"must wait", 1 * minute, Open, 0, 1},
			{"may be tried", 2 * minute, HalfOpen, 0, 1},
			{"may be tried", 2 * minute, HalfOpen, 0, 1},
			{"is established", 2 * minute, Closed, 0, 1},
		},
		"a trial that fails opens it again, be it the first failure": {
			{"sessions break", 1 * minute, Open, 0, 1},
			{"may be tried", 2 * minute, HalfOpen, 0, 1},
			{"fails", 2 * minute, Open, 1, 1},
			{"may be tried", 3 * minute, HalfOpen, 1, 1},
			{"fails", 3 * minute, Open, 2, 1},
		},
		"what was being dialed when it opened proves nothing": {
			{"sessions break", 1 * minute, Open, 0, 1},
			{"is established", 1 * minute, Open, 0, 1},
			{"must wait", 1 * minute, Open, 0, 1},
		},
		"when one on probation is lost, that is a failure": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"is on probation", 2 * minute, Closed, 1, 0},
			{"fails", 2 * minute, Closed, 2, 0},
			{"is on probation", 3 * minute, Closed, 2, 0},
			{"fails", 3 * minute, Open, 3, 0},
			{"may be tried", 4 * minute, HalfOpen, 3, 0},
			{"is on probation", 4 * minute, HalfOpen, 3, 0},
			{"fails", 4 * minute, Open, 4, 0},
		},
		"failures are forgotten when it closes, trips are not": {
			{"fails", 1 * minute, Closed, 1, 0},
			{"fails", 2 * minute, Closed, 2, 0},
			{"fails", 3 * minute, Open, 3, 0},
			{"may be tried", 4 * minute, HalfOpen, 3, 0},
			{"is established", 4 * minute, Closed, 0, 0},
			{"sessions break", 5 * minute, Open, 0, 1},
			{"may be tried", 6 * minute, HalfOpen, 0, 1},
			{"is established", 6 * minute, Closed, 0, 1},
			{"sessions break", 7 * minute, Open, 0, 2},
			{"may be tried", 8 * minute, HalfOpen, 0, 2},
			{"is established", 8 * minute, Closed, 0, 2},
			{"a session ends well", 9 * minute, Closed, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &circuit{after: 3}
			for _, e := range events {
				c.tell(t, e)
			}
		})
	}
}

// A circuit that few clients' sessions have opened is tried again after a second at most, however often they open it.
func TestFewClientsOpenItBriefly(t *testing.T) {
	c := &circuit{after: 3, trips: 20, random: func(d time.Duration) time.Duration { return d - 1 }}
	if c.trip(noon, false); c.retryAt != noon+Instant(NeededBackoff) || c.countAfter != c.retryAt {
		t.Errorf("%+v", c)
	}
	if c.trip(noon, true); c.retryAt != noon+Instant(LastBackoff)-1 {
		t.Errorf("of many clients: %+v", c)
	}
}

// Probation does not shorten a wait.
func TestProbationIsNoShortcut(t *testing.T) {
	c := &circuit{retryAt: noon + Instant(time.Minute)}
	c.holdOff(noon)
	if wait := c.wait(noon, false); wait != time.Minute {
		t.Errorf("waits %v", wait)
	}
}

// established reports whether the circuit was closed by it.
func TestCircuitTellsWhenItCloses(t *testing.T) {
	for state, want := range map[CircuitState]bool{Closed: false, HalfOpen: true, Open: false} {
		c := circuit{state: state}
		if got := c.established(); got != want {
			t.Errorf("%v: %v", state, got)
		}
	}
}

// The wait is a random part of a time that doubles with each failure, or trip, up to a limit; the first success ends it.
func TestBackoff(t *testing.T) {
	const samples = 400
	for n := range 20 {
		bound := LastBackoff
		if n < 6 {
			bound = FirstBackoff << n
		}
		for name, sample := range map[string]func() *circuit{
			"failures": func() *circuit {
				c := &circuit{after: 1000, failures: n}
				c.fail(noon)
				return c
			},
			"trips": func() *circuit {
				c := &circuit{after: 1000, trips: n}
				c.trip(noon, true)
				return c
			},
			"both": func() *circuit {
				c := &circuit{after: 1000, failures: n / 2, trips: n - n/2}
				c.fail(noon)
				return c
			},
		} {
			longest, total := time.Duration(0), time.Duration(0)
			for range samples {
				c := sample()
				wait := time.Duration(c.retryAt - noon)
				if wait < 0 || wait >= bound {
					t.Errorf("%v after %d %s; want at most %v", wait, n+1, name, bound)
				}
				longest, total = max(longest, wait), total+wait
				if c.established(); c.state == Closed && c.wait(noon, false) != 0 {
					t.Error("a success does not end the wait")
				}
			}
			// The mean has a standard deviation of 0.0145 of the bound; the longest is below 0.9 of it once in 10^18 runs.
			if mean := total / samples; mean < bound*4/10 || mean > bound*6/10 || longest < bound*9/10 {
				t.Errorf("%v on the average, %v at most after %d %s; want half of %v", mean, longest, n+1, name, bound)
			}
		}
	}
}

// While sessions have nowhere else to go, an open circuit is tried a second after the last failure, again and again, and each trial that fails
// counts.
func TestNeededCircuit(t *testing.T) {
	h := New(Limits{Parallel: 8, Failures: 1})
	h.random = func(d time.Duration) time.Duration { return d - 1 }
	h.circuit.random = h.random
	now := noon
	for range 10 { // the wait is 10 s by then
		h.DialEnded(h.Dial(now), DialResult{Outcome: Failed, Reason: "refused"}, now)
		h.circuit.state = Open
		now = max(now, h.circuit.retryAt)
	}
	h.DialEnded(h.Dial(now), DialResult{Outcome: Failed, Reason: "refused"}, now)
	failed := now
	now += Instant(time.Second / 2)
	if p := h.Review(now, Connections{Cap: 8}); !p.BackingOff || p.Within > NeededBackoff {
		t.Fatalf("%+v", p)
	}
	if p := h.Review(now, Connections{Cap: 8, Needed: true}); !p.BackingOff || p.Within != time.Duration(failed+Instant(time.Second)-now) {
		t.Fatalf("half a second after the failure: %+v", p)
	}
	for range 5 {
		now = failed + Instant(time.Second)
		if p := h.Review(now, Connections{Cap: 8, Needed: true}); !p.Trial || p.Dials != 1 {
			t.Fatalf("a second after the failure: %+v", p)
		}
		failed = now + Instant(time.Millisecond)
		h.DialEnded(h.Dial(now), DialResult{Outcome: Failed, Reason: "refused"}, failed)
		if h.circuit.state != Open {
			t.Fatalf("after a trial that failed, the circuit is %v", h.circuit.state)
		}
	}
	if p := h.Review(failed+Instant(time.Second), Connections{Cap: 8}); !p.BackingOff {
		t.Fatalf("without sessions that need it: %+v", p)
	}
}
