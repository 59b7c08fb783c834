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

// When a backend flaps: it went out of health flapTimes within flapWithin, and has not been quiet since for much longer than before.
const (
	flapTimes  = 3
	flapWithin = 3 * time.Minute
	flapQuiet  = 1.5
	mostQuiet  = time.Minute
)

// flaps is when a backend went out of health.
type flaps struct {
	well    bool
	opened  uint64
	changed time.Duration // last, either way
	downs   []down        // oldest first, within flapWithin
	present bool
}

type down struct {
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
			known = &flaps{well: well, opened: b.CircuitOpened, changed: o.Elapsed}
			r.flaps[name] = known
		}
		known.present = true
		if b.State != "enabled" { // what an operator does is no flapping
			known.downs = nil
			known.well = well
			continue
		}
		if known.take(well, b.CircuitOpened, o) {
			all[name] = Flap{Times: len(known.downs), First: known.downs[0].time}
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
func (f *flaps) take(well bool, opened uint64, o *Observation) bool {
	if f.well && !well || well && opened > f.opened { // or it was out of health for less than the time between two observations
		f.downs = append(f.downs, down{o.Elapsed, o.Now})
		f.changed = o.Elapsed
	}
	if well != f.well {
		f.changed = o.Elapsed
	}
	f.well, f.opened = well, opened
	f.downs = slices.DeleteFunc(f.downs, func(d down) bool { return o.Elapsed-d.at >= flapWithin })
	if len(f.downs) < flapTimes {
		return false
	}
	longest := time.Duration(0)
	for i := 1; i < len(f.downs); i++ {
		longest = max(longest, f.downs[i].at-f.downs[i-1].at)
	}
	return o.Elapsed-f.changed < min(max(quiet, time.Duration(flapQuiet*float64(longest))), mostQuiet)
}
