package diagnosis

import (
	"cmp"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// nearlyFull is the part of replay-memory from which on an operator should act.
const nearlyFull = 0.9

// ofReplay tells whether the memory for failover is nearly used up. r may be nil.
func ofReplay(r *api.Replay, add func(Level, string, time.Time, string, ...any)) {
	if r == nil || float64(r.MemoryBytes) < nearlyFull*float64(r.LimitBytes) {
		return
	}
	add(Failure, "proxy", time.Time{}, "replay-memory is nearly used up: %s of %s; when it is, sessions end with their backends",
		figures.Bytes(float64(r.MemoryBytes)), figures.Bytes(float64(r.LimitBytes)))
}

// ofFailover shows whether other backends can continue a service's sessions.
func ofFailover(v *api.Service, add func(Level, string, time.Time, string, ...any)) {
	f, what := v.Failover, "service "+v.Name
	if f == nil || f.Mode == "off" {
		return
	}
	if f.Verdict == "never" {
		add(Warning, what, time.Time{}, "failover: replay has no effect: %s", cmp.Or(f.Why, "its profile does not say how"))
	}
	if !f.Failed.IsZero() {
		add(Failure, what, f.Failed, "no other backend could continue sessions whose backend failed: see how they ended")
	}
}
