package backend

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
)

// Health is a backend's health for statistics. The times are those of the last change.
type Health struct {
	// Reachable reports whether the last connection could be established and was not lost at once.
	Reachable bool
	Since     time.Time
	Reason    string // why it is not reachable

	// Circuit is the state of the circuit: closed, half-open or open.
	Circuit       string
	CircuitSince  time.Time
	CircuitReason string
	CircuitOpened uint64 // how often

	// Probe is the verdict of the active probe: off, unknown, up or down.
	Probe       string
	ProbeSince  time.Time
	ProbeReason string

	// Canary is the verdict of the canary: off, unknown, up, down, or doubtful if it fails and has not passed on any backend of the service,
	// which takes the backend out of service as little as unknown does.
	Canary       string
	CanarySince  time.Time
	CanaryReason string // why it is down, or why it could not be played
	// CanarySeconds is how long the first result of the last canary took; 0 before the first.
	CanarySeconds float64

	// Outlier tells that the backend was ejected: it gets no sessions for a while, since far more fail on it than on its peers.
	Outlier       bool
	OutlierSince  time.Time
	OutlierReason string
	Outliers      uint64 // how often

	// Stalled tells that the backend gets no sessions but trials, since sessions on it have stalled.
	Stalled       bool
	StalledSince  time.Time
	StalledReason string

	// Broken is how many sessions the backend has broken since the start.
	Broken uint64
	// RoundTripSeconds is a moving average of the time between pings and their pongs; 0 before the first.
	RoundTripSeconds float64
	// FullAt is how many connections the server had when it said last that it is full; 0 once it may have as many as its cap again.
	FullAt int
	// CeilingCause is what limits connections below the cap: full or lag; empty for nothing. CeilingReason says more about it.
	CeilingCause  string
	CeilingSince  time.Time
	CeilingReason string
}

// notDialed is the reason for not being reachable before the first attempt.
const notDialed = "not dialed yet"

// report keeps a backend's health for statistics, and logs each change once. It may be used from any goroutine.
type report struct {
	log      *slog.Logger // static
	onDemand atomic.Bool  // the server refuses connections that are dialed ahead of clients
	isFull   atomic.Bool  // the server has refused the last connection because it is full

	mu     sync.Mutex
	name   string // guarded by mu
	health Health // guarded by mu
}

func (r *report) init(name string, log *slog.Logger, probed bool) {
	now := time.Now()
	r.name, r.log = name, log
	r.health = Health{Since: now, Reason: notDialed, Circuit: health.Closed.String(), CircuitSince: now, Probe: "off", Canary: "off"}
	if probed {
		r.health.Probe, r.health.ProbeSince = "unknown", now
	}
}

// rename changes the backend's name in the log.
func (r *report) rename(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name = name
}

// named returns the backend's name in the log.
func (r *report) named() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

func (r *report) get() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// update changes the health under the lock.
func (r *report) update(change func(h *Health)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.health)
}

// tell logs that the backend does better, or worse and why.
func (r *report) tell(better bool, good, bad, reason string) {
	if better {
		r.log.Info(good, "backend", r.named())
	} else {
		r.log.Warn(bad, "backend", r.named(), "reason", reason)
	}
}

// setReachable reports whether the backend can be reached.
func (r *report) setReachable(reachable bool, reason string) {
	var first, changed bool
	r.update(func(h *Health) {
		first = h.Reason == notDialed
		changed = h.Reachable != reachable
		if first || changed {
			h.Since = time.Now()
		}
		h.Reachable, h.Reason = reachable, reason
	})
	if first || changed {
		r.tell(reachable, "backend reachable", "backend not reachable, trying again", reason)
	}
}

// setCircuit reports the state of the circuit. Trials get no line in the log.
func (r *report) setCircuit(state health.CircuitState, reason string) {
	var before string
	r.update(func(h *Health) {
		if before = h.Circuit; before == state.String() {
			return
		}
		h.Circuit = state.String()
		if (before == health.Closed.String()) == (state == health.Closed) {
			if reason != "" { // a trial has failed: this is what keeps it out of service now
				h.CircuitReason = reason
			}
			return
		}
		h.CircuitSince, h.CircuitReason = time.Now(), reason
		if state == health.Open {
			h.CircuitOpened++
		}
	})
	if (before == health.Closed.String()) != (state == health.Closed) {
		r.tell(state == health.Closed, "backend back in service, circuit closed", "backend taken out of service, circuit open", reason)
	}
}

// check is what the health has of a probe or a canary.
type check struct {
	verdict *string
	since   *time.Time
	reason  *string
}

func probeOf(h *Health) check  { return check{&h.Probe, &h.ProbeSince, &h.ProbeReason} }
func canaryOf(h *Health) check { return check{&h.Canary, &h.CanarySince, &h.CanaryReason} }

// begins notes that the backend is probed, or played canaries, from now on.
func (r *report) begins(of func(*Health) check) {
	r.update(func(h *Health) {
		if c := of(h); *c.verdict == "off" {
			*c.verdict, *c.since = "unknown", time.Now()
		}
	})
}

// judge notes a verdict and its reason, and reports whether it is another verdict than before.
func (r *report) judge(of func(*Health) check, verdict, reason string) (changed bool) {
	r.update(func(h *Health) {
		c := of(h)
		*c.reason = reason
		if changed = *c.verdict != verdict; changed {
			*c.verdict, *c.since = verdict, time.Now()
		}
	})
	return changed
}

func upOrDown(up bool) string { return map[bool]string{true: "up", false: "down"}[up] }

// setProbe reports the verdict of the active probe.
func (r *report) setProbe(up bool, reason string) {
	if r.judge(probeOf, upOrDown(up), reason) {
		r.tell(up, "backend probe succeeds", "backend taken out of service, probe fails", reason)
	}
}

// noProbe reports that the backend is no longer probed.
func (r *report) noProbe() { r.judge(probeOf, "off", "") }

// setCanary reports the verdict of the canary.
func (r *report) setCanary(up bool, reason string) {
	if r.judge(canaryOf, upOrDown(up), reason) {
		r.tell(up, "backend answers the canary", "backend taken out of service, canary fails", reason)
	}
}

// noCanary reports that the backend is no longer played canaries.
func (r *report) noCanary() {
	r.judge(canaryOf, "off", "")
	r.heardCanary(0)
}

// doubtCanary reports that a canary fails that has not passed on any backend of the service.
func (r *report) doubtCanary(reason string) {
	if r.judge(canaryOf, canaryDoubtful, reason) {
		r.tell(false, "", "canary fails and has not passed on any backend of the service; the backend stays in service", reason)
	}
}

// canaryDoubtful is the verdict of a canary that may be wrong itself.
const canaryDoubtful = "doubtful"

// heardCanary reports how long the first result of a canary has taken.
func (r *report) heardCanary(d time.Duration) {
	r.update(func(h *Health) { h.CanarySeconds = d.Seconds() })
}

// canaryNotPlayed reports why the last canary could not be played, which says nothing about the server; "" if it was, and passed.
func (r *report) canaryNotPlayed(reason string) {
	r.update(func(h *Health) {
		if h.Canary != "down" && h.Canary != canaryDoubtful {
			h.CanaryReason = reason
		}
	})
}

// setOutlier reports whether the backend is ejected because sessions fail on it and not on its peers.
func (r *report) setOutlier(out bool, reason string) {
	r.update(func(h *Health) {
		h.Outlier, h.OutlierSince, h.OutlierReason = out, time.Now(), reason
		if out {
			h.Outliers++
		}
	})
	r.tell(!out, "backend no longer ejected, it gets new sessions again", "backend ejected as an outlier, far more sessions fail on it than on its peers", reason)
}

// setStalled reports whether the backend is out of service because sessions on it have stalled.
func (r *report) setStalled(stalled bool, reason string) {
	r.update(func(h *Health) {
		h.Stalled, h.StalledSince, h.StalledReason = stalled, time.Now(), ""
		if stalled {
			h.StalledReason = reason
		}
	})
	r.tell(!stalled, "backend back in service, "+cmp.Or(reason, "it answers again"), "backend taken out of service, sessions stall on it", reason)
}

// setFullAt reports at how many connections the server said last that it is full; 0 for no longer.
func (r *report) setFullAt(n int) { r.update(func(h *Health) { h.FullAt = n }) }

// setCeiling reports what limits the connections to the server.
func (r *report) setCeiling(c health.Ceiling) {
	r.update(func(h *Health) {
		if cause := c.Cause.String(); cause != h.CeilingCause {
			h.CeilingCause, h.CeilingSince = cause, time.Now()
		}
		h.CeilingReason = c.Reason
	})
}

// changed reports a change of the server's health.
func (r *report) changed(c health.Change) {
	switch c := c.(type) {
	case health.ReachabilityChange:
		r.setReachable(c.Reachable, c.Reason)
	case health.CircuitChange:
		r.setCircuit(c.State, c.Reason)
	case health.OutlierChange:
		r.setOutlier(c.Ejected, c.Reason)
	case health.StallChange:
		r.setStalled(c.Stalled, c.Reason)
	case health.PredialChange:
		r.onDemand.Store(c.Refused)
		if !c.Refused {
			return
		}
		r.log.Warn("no connections are dialed ahead of clients: the server refuses those without a client's own values",
			"backend", r.named(), "reason", c.Reason)
	case health.CeilingChange:
		if c.Ceiling > 0 {
			r.log.Warn("backend is full, limiting its connections for a while", "backend", r.named(), "connections", c.Ceiling, "cap", c.Cap)
		} else {
			r.log.Info("backend accepts connections up to its cap again", "backend", r.named(), "cap", c.Cap)
		}
	case health.LagChange:
		if c.Ceiling > 0 {
			r.log.Warn("backend gets no new sessions above a ceiling, its results come too late", "backend", r.named(), "reason", c.Reason, "ceiling", c.Ceiling, "cap", c.Cap)
		} else {
			r.log.Info("backend gets sessions up to its cap again, its results come in time", "backend", r.named())
		}
	}
}

// roundTrip reports how long a pong took. Each new value counts for an eighth.
func (r *report) roundTrip(d time.Duration) {
	r.update(func(h *Health) {
		if h.RoundTripSeconds == 0 {
			h.RoundTripSeconds = d.Seconds()
		}
		h.RoundTripSeconds += (d.Seconds() - h.RoundTripSeconds) / 8
	})
}
