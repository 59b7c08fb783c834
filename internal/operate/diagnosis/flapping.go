package diagnosis

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Flap is a backend that goes in and out of health.
type Flap struct {
	Times int       // that it went out of health
	First time.Time // when it first did
}

// When a backend flaps: it went out of health flapTimes within flapWithin, and its present state, in or out, has not lasted for twice as long as the
// longest time from one of these to the next. So a crash loop stays one problem while the server is up, and whoever mends a fast one soon sees that
// it is over. A server that stays out for longer than mostOut does not come back by itself.
const (
	flapTimes  = 3
	flapWithin = 3 * time.Minute
	mostOut    = 30 * time.Second
)

// flaps is when a backend went in and out of health.
type flaps struct {
	well    bool
	opened  uint64  // how often the circuit has opened
	changes []phase // oldest first, within flapWithin before the last moment out of health
}

// phase is a time in or out of health, from its beginning to that of the next one.
type phase struct {
	well bool
	at   time.Duration
	time time.Time
}

// flapsOf takes the health of all backends.
func (r *recent) flapsOf(o *Observation) map[BackendName]Flap {
	all, present := make(map[BackendName]Flap), make(map[BackendName]*flaps, len(o.Stats.Backends))
	for i := range o.Stats.Backends {
		b := &o.Stats.Backends[i]
		name, well := BackendName{b.Service, b.Name}, b.Health.Condition().Word == api.Healthy
		known := r.flaps[name]
		if known == nil {
			known = &flaps{well: well, opened: b.CircuitOpened}
		}
		present[name] = known
		if b.State != "enabled" { // what an operator does is no flapping
			known.changes, known.well, known.opened = nil, well, b.CircuitOpened
			continue
		}
		if flap, ok := known.take(well, b.CircuitOpened, o); ok {
			all[name] = flap
		}
	}
	r.flaps = present
	return all
}

// take takes a backend's health, and reports whether it flaps.
func (f *flaps) take(well bool, opened uint64, o *Observation) (flap Flap, ok bool) {
	change := func(well bool) { f.changes = append(f.changes, phase{well, o.Elapsed, o.Now}) }
	switch {
	case f.well && well && opened > f.opened: // it was out of health for less than the time between two observations
		change(false)
		change(true)
	case f.well != well:
		change(well)
	}
	f.well, f.opened = well, opened
	if len(f.changes) == 0 {
		return flap, false
	}
	changed := f.changes[len(f.changes)-1].at
	out, limit := o.Elapsed, mostOut // the last moment out of health, and how long the present state may last
	if well {
		out, limit = changed, flapWithin
	}
	f.changes = slices.DeleteFunc(f.changes, func(p phase) bool { return out-p.at >= flapWithin })
	var before, longest time.Duration // from one time out of health to the next
	for _, p := range f.changes {
		if p.well {
			continue
		}
		if flap.Times++; flap.Times == 1 {
			flap.First = p.time
		} else {
			longest = max(longest, p.at-before)
		}
		before = p.at
	}
	return flap, flap.Times >= flapTimes && o.Elapsed-changed < min(max(quiet, 2*longest-linger), limit) // a Watch lingers
}
