package backend

import (
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
)

// inReport runs f with a report of its own, in a bubble for the sake of the clock.
func inReport(t *testing.T, probed bool, f func(*report, *capture)) {
	synctest.Test(t, func(t *testing.T) {
		log := new(capture)
		r := new(report)
		r.init("ws://fake", slog.New(log), probed)
		time.Sleep(time.Second)
		f(r, log)
	})
}

// Each change is logged once, and its time is that of the change.
func TestReportReachable(t *testing.T) {
	t.Parallel()
	inReport(t, false, func(r *report, log *capture) {
		if h := r.get(); h.Reachable || h.Reason != notDialed || h.Circuit != "closed" || h.Probe != "off" || h.Since.IsZero() {
			t.Errorf("at first: %+v", h)
		}
		for _, change := range []struct {
			reachable bool
			reason    string
		}{{false, "refused"}, {true, ""}, {false, "no answer"}, {true, ""}} {
			changed := time.Now()
			for range 3 {
				r.setReachable(change.reachable, change.reason)
				if h := r.get(); h.Reachable != change.reachable || h.Reason != change.reason || !h.Since.Equal(changed) {
					t.Errorf("%+v: %+v", change, h)
				}
				time.Sleep(time.Second)
			}
		}
		r.setReachable(false, "refused")
		r.setReachable(false, "no answer") // the reason is kept up to date, but worth no line
		if h := r.get(); h.Reason != "no answer" {
			t.Errorf("health: %+v", h)
		}
		log.expect(t, notReachable+"refused", reachable, notReachable+"no answer", reachable, notReachable+"refused")
	})
	inReport(t, false, func(r *report, log *capture) {
		r.setReachable(true, "") // one that is reachable from the beginning is worth a line, too
		r.setReachable(true, "")
		log.expect(t, reachable)
	})
}

// Trials are no changes: what counts is whether the backend is in service.
func TestReportCircuit(t *testing.T) {
	t.Parallel()
	inReport(t, false, func(r *report, log *capture) {
		begun := r.get().CircuitSince
		r.setCircuit(health.Closed, "")
		if h := r.get(); !h.CircuitSince.Equal(begun) {
			t.Errorf("health: %+v", h)
		}
		for n := range uint64(2) {
			changed := time.Now()
			for range 3 {
				r.setCircuit(health.Open, "refused")
				time.Sleep(time.Second)
				r.setCircuit(health.HalfOpen, "")
				r.setCircuit(health.HalfOpen, "")
				if h := r.get(); h.Circuit != "half-open" || h.CircuitReason != "refused" || h.CircuitOpened != n+1 || !h.CircuitSince.Equal(changed) {
					t.Errorf("health: %+v", h)
				}
			}
			r.setCircuit(health.Open, "wrong key") // the reason is that of the last trial
			if h := r.get(); h.CircuitReason != "wrong key" || !h.CircuitSince.Equal(changed) {
				t.Errorf("health: %+v", h)
			}
			changed = time.Now()
			for range 2 {
				r.setCircuit(health.Closed, "")
				if h := r.get(); h.Circuit != "closed" || h.CircuitReason != "" || !h.CircuitSince.Equal(changed) {
					t.Errorf("health: %+v", h)
				}
				time.Sleep(time.Second)
			}
		}
		log.expect(t, opened+"refused", closedAgain, opened+"refused", closedAgain)
	})
}

func TestReportProbe(t *testing.T) {
	t.Parallel()
	inReport(t, true, func(r *report, log *capture) {
		if h := r.get(); h.Probe != "unknown" {
			t.Errorf("at first: %+v", h)
		}
		for _, up := range []bool{true, true, false, false, true} {
			r.setProbe(up, map[bool]string{false: "500"}[up])
		}
		if h := r.get(); h.Probe != "up" || h.ProbeReason != "" || !h.ProbeSince.Equal(time.Now()) {
			t.Errorf("health: %+v", h)
		}
		log.expect(t, "INFO backend probe succeeds", "WARN backend taken out of service, probe fails: 500",
			"INFO backend probe succeeds")
	})
}

// The round trip is a moving average that begins with the first value.
func TestReportRoundTrip(t *testing.T) {
	t.Parallel()
	inReport(t, false, func(r *report, _ *capture) {
		for _, step := range []struct {
			roundTrip time.Duration
			want      float64
		}{{80 * time.Millisecond, 0.08}, {160 * time.Millisecond, 0.09}, {10 * time.Millisecond, 0.08}} {
			r.roundTrip(step.roundTrip)
			if got := r.get().RoundTripSeconds; math.Abs(got-step.want) > 1e-12 {
				t.Errorf("%v; want %v", got, step.want)
			}
		}
	})
}
