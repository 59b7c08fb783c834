package diagnosis

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// quiet is for how long something must not happen again to be past.
	quiet = 8 * time.Second
	// linger is for how long a problem must be gone before it has ended, so that it does not end and begin with each trial of a server.
	linger = 3 * time.Second
	// settling is how long after the start of a proxy a problem that it knows from its history may take to show again.
	settling = 15 * time.Second
)

// Observation is a proxy at one instant.
type Observation struct {
	Now     time.Time     // what the wall clock says
	Elapsed time.Duration // on a clock that no operator sets
	Stats   *api.Stats
	Meters  *meter.Snapshot
}

// Watch follows one proxy, and decides when its problems begin and end. One goroutine uses it. The zero value has seen nothing.
type Watch struct {
	recent  recent
	replies map[BackendName]Reply
	known   []*known
	held    map[Kind]time.Duration // when a problem of a kind was found last that had begun
	started bool
	first   time.Duration // Elapsed of the first observation
	firstAt time.Time     // Now of the first observation
}

// known is a problem that holds, or has held until a moment ago.
type known struct {
	api.Problem
	begun   bool // it was reported
	carried bool // it is known from before the start of the process, and was not seen since
	since   time.Duration
	seen    time.Duration // when it was found last
	at      time.Time     // the same, of the wall clock
}

// Outcome is what one observation led to.
type Outcome struct {
	Problems []api.Problem // all that hold, in the order in which they are shown
	Begun    []api.Problem
	Ended    []api.PastProblem
}

// Carry makes problems known that had begun and not ended when the process before this one ended: those that show again continue, and the
// others end. It must be called before the first observation.
func (w *Watch) Carry(open []api.PastProblem) {
	for i := range open {
		w.known = append(w.known, &known{Problem: open[i].Problem, begun: true, carried: true})
	}
}

// Replies returns what the last observation told about the first replies of backends. The caller must not change it.
func (w *Watch) Replies() map[BackendName]Reply { return w.replies }

// Observe takes the next observation. Those of one proxy come about once a second.
func (w *Watch) Observe(o *Observation) Outcome {
	if !w.started {
		w.started, w.first, w.firstAt, w.held = true, o.Elapsed, o.Now, make(map[Kind]time.Duration)
	}
	recent := w.recent.observe(o)
	w.replies = recent.Replies
	for kind, at := range w.held {
		if o.Elapsed-at < window {
			recent.Held = append(recent.Held, kind)
		}
	}
	found := Find(&Facts{Now: o.Now, Stats: o.Stats, Recent: recent})
	var out Outcome
	for i := range found {
		p := &found[i]
		k := w.find(p)
		if k == nil {
			k = &known{since: o.Elapsed}
			k.Since = o.Now
			if !p.Since.IsZero() && p.Since.Before(o.Now) {
				k.Since = p.Since
			}
			w.known = append(w.known, k)
		}
		since := k.Since
		k.Problem = *p
		k.Since, k.seen, k.at = since.UTC(), o.Elapsed, o.Now
		if k.begun {
			w.held[Kind(k.Kind)] = o.Elapsed
		}
		switch {
		case k.carried:
			k.carried = false
			out.Begun = append(out.Begun, k.Problem)
		case !k.begun && (o.Elapsed-k.since >= natureOf(Kind(p.Kind)).hold || w.changes(p)):
			k.begun = true
			out.Begun = append(out.Begun, k.Problem)
		}
	}
	w.known = slices.DeleteFunc(w.known, func(k *known) bool {
		if k.seen == o.Elapsed && !k.carried || !w.over(k, o.Elapsed, found) {
			return false
		}
		if k.begun {
			ended := k.at
			if k.carried {
				ended = w.firstAt
			}
			out.Ended = append(out.Ended, api.PastProblem{Problem: k.Problem, Ended: ended.UTC()})
		}
		return true
	})
	out.Problems = make([]api.Problem, 0, len(w.known))
	for _, k := range w.known {
		if k.begun && !k.carried {
			out.Problems = append(out.Problems, k.Problem)
		}
	}
	Sort(out.Problems)
	return out
}

// over reports whether a problem that was not found this time has ended.
func (w *Watch) over(k *known, now time.Duration, found []api.Problem) bool {
	switch {
	case k.carried:
		return now-w.first >= settling
	case slices.ContainsFunc(found, func(p api.Problem) bool { return worse(&p, &k.Problem) && !w.find(&p).begun }):
		return false // it is so bad for a moment only, until that has held
	case !k.begun || now-k.seen >= linger:
		return true
	}
	return slices.ContainsFunc(found, func(p api.Problem) bool { return replaces(&p, &k.Problem) && w.find(&p).begun })
}

// replaces reports whether a problem stands for another one from now on: it is another state of the same thing, or has it as its cause.
func replaces(p, old *api.Problem) bool {
	state := isState(Kind(p.Kind)) && isState(Kind(old.Kind))
	return state && thing(p) == thing(old) || p.Service == old.Service && p.Service != "" && slices.Contains(p.Causes, old.Kind)
}

// worse reports whether a problem is a worse state of the same thing.
func worse(p, old *api.Problem) bool {
	return thing(p) == thing(old) && isState(Kind(p.Kind)) && isState(Kind(old.Kind)) && rankOf(p.Kind) < rankOf(old.Kind)
}

// changes reports whether a problem is another state of what is out of service already, so that it need not hold to be believed.
func (w *Watch) changes(p *api.Problem) bool {
	kind := Kind(p.Kind)
	return (keepsAway(kind) || kind == ServiceDown || kind == ServiceDegraded) && slices.ContainsFunc(w.known, func(k *known) bool {
		return k.begun && !k.carried && thing(&k.Problem) == thing(p) && k.Kind != p.Kind && isState(Kind(k.Kind))
	})
}

// thing returns what a problem is a state of: a tenant that fills a queue is a state of the service.
func thing(p *api.Problem) string {
	if Kind(p.Kind) == TenantFillsQueue {
		return service(p.Service).what
	}
	return p.What
}

// isState reports whether a service or backend has at most one problem of kinds like this one.
func isState(kind Kind) bool {
	switch kind {
	case ServiceDown, ServiceDegraded, ServiceQueueFull, TenantFillsQueue, ServicePaused, ServiceWaiting, ServiceNearlyFull, CanaryDoubtful, BackendLate, BackendFull, BackendOverGranted:
		return true
	}
	return keepsAway(kind)
}

// find returns what is known of a problem; nil for nothing.
func (w *Watch) find(p *api.Problem) *known {
	for _, k := range w.known {
		if k.Same(p) {
			return k
		}
	}
	return nil
}
