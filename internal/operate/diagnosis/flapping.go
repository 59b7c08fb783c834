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

// When a backend flaps: it went out of health flapTimes within flapWithin, and its present state, in or out, has not lasted for much longer than
// the same state before.
const (
	flapTimes  = 3
	flapWithin = 3 * time.Minute
	flapQuiet  = 1.5
	mostQuiet  = 30 * time.Second
)

// flaps is when a backend went in and out of health.
type flaps struct {
	well    bool
	opened  uint64  // how often the circuit has opened
	changes []phase // oldest first, within flapWithin
	present bool
}

// phase is a time in or out of health, from its beginning to that of the next one.
type phase struct {
	well bool
	at   time.Duration
	time time.Time
}

// flapsOf takes the health of all backends.
func (r *recent) flapsOf(o *Observation) map[BackendName]Flap {
	all := make(map[BackendName]Flap)
	for i := range o.Stats.Backends {
		b := &o.Stats.Backends[i]
		name, well := BackendName{b.Service, b.Name}, b.Condition().Word == api.Healthy
		known := r.flaps[name]
		if known == nil {
			known = &flaps{well: well, opened: b.CircuitOpened}
			r.flaps[name] = known
		}
		known.present = true
		if b.State != "enabled" { // what an operator does is no flapping
			known.changes, known.well, known.opened = nil, well, b.CircuitOpened
			continue
		}
		if flap, ok := known.take(well, b.CircuitOpened, o); ok {
			all[name] = flap
		}
	}
	for name, known := range r.flaps {
		if !known.present {
			delete(r.flaps, name)
		}
		known.present = false
	}
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
	f.changes = slices.DeleteFunc(f.changes, func(p phase) bool { return o.Elapsed-p.at >= flapWithin })
	var lasted []float64 // times in the present state, before it began
	for i, p := range f.changes {
		if !p.well {
			if flap.Times++; flap.Times == 1 {
				flap.First = p.time
			}
		}
		if i < len(f.changes)-1 && p.well == well {
			lasted = append(lasted, float64(f.changes[i+1].at-p.at))
		}
	}
	if flap.Times < flapTimes {
		return flap, false
	}
	usual := quiet
	if len(lasted) > 0 {
		usual = min(max(quiet, time.Duration(flapQuiet*median(lasted))), mostQuiet)
	}
	return flap, o.Elapsed-f.changes[len(f.changes)-1].at < usual
}
