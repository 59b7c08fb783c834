package explore

import (
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Options are what is explored.
type Options struct {
	Proxies int
	Cap     int // places of the server
	Faults  Faults
	// Most is after how many states the exploration gives up; 0 for never.
	Most int
	// Live is of how many states one is checked for whether all places become usable again; 0 for none.
	Live int
	// Progress gets a line now and then; nil for none.
	Progress io.Writer
}

// Result is what an exploration found.
type Result struct {
	States, Steps int
	Live          int // states that were checked for whether all places become usable again
	Depth         int // steps to the state that is farthest from the start
	Time          time.Duration
	Complete      bool     // all states were seen
	Wrong         string   // what is wrong in the last state of Trace; empty if nothing is anywhere
	Trace         []string // the steps to it
}

// String tells the result in one line.
func (r *Result) String() string {
	s := fmt.Sprintf("%d states, %d steps, at most %d from the start, %d checked for recovery, %.1f s", r.States, r.Steps, r.Depth, r.Live, r.Time.Seconds())
	if !r.Complete {
		s += ", not all"
	}
	if r.Wrong != "" {
		s += ": " + r.Wrong + ":\n  " + strings.Join(r.Trace, "\n  ")
	}
	return s
}

// visited is how a state was reached.
type visited struct {
	from int32
	name int32 // of the step
}

// Explore visits all states, nearest first, and stops at the first in which something is wrong.
func Explore(o Options) *Result {
	began := time.Now()
	r := &Result{}
	k := &writer{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, sequences: map[fleet.ID][]uint64{}, epochs: map[fleet.Epoch]byte{},
		ids: map[fleet.ID]byte{}, flying: map[fleet.ID]bool{}, named: map[fleet.Epoch]bool{},
	}
	var names []string
	known := map[string]int32{}
	seen := map[key]struct{}{}
	var history []visited

	type entry struct {
		w     *world
		index int32
	}
	visit := func(w *world, from int32, name string) (index int32, isNew bool) {
		id := k.key(w)
		if _, ok := seen[id]; ok {
			return 0, false
		}
		seen[id] = struct{}{}
		n, ok := known[name]
		if !ok {
			n = int32(len(names))
			known[name] = n
			names = append(names, name)
		}
		history = append(history, visited{from, n})
		return int32(len(history) - 1), true
	}
	fail := func(index int32, wrong string) {
		r.Wrong = wrong
		for ; index > 0; index = history[index].from {
			r.Trace = append([]string{names[history[index].name]}, r.Trace...)
		}
	}

	first := start(&o)
	visit(first, 0, "")
	level := []entry{{first, 0}}
	for len(level) > 0 && r.Wrong == "" && (o.Most == 0 || len(seen) < o.Most) {
		var following []entry
		for i, e := range level {
			level[i].w = nil
			for _, s := range e.w.steps(&o) {
				r.Steps++
				index, isNew := visit(s.to, e.index, s.name)
				if !isNew {
					continue
				}
				if wrong := s.to.check(&o); wrong != "" {
					fail(index, wrong)
					break
				}
				if o.Live > 0 && int(index)%o.Live == 0 {
					r.Live++
					if wrong := s.to.recovers(&o); wrong != "" {
						fail(index, wrong)
						break
					}
				}
				following = append(following, entry{s.to, index})
			}
			if r.Wrong != "" || o.Most > 0 && len(seen) >= o.Most {
				break
			}
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "%4d steps from the start: %d states, %d of them new, %.0f s\n", r.Depth, len(seen), len(following), time.Since(began).Seconds())
		}
		level = following
		if len(following) > 0 {
			r.Depth++
		}
	}
	r.Complete = len(level) == 0 && r.Wrong == ""
	r.States, r.Time = len(seen), time.Since(began)
	return r
}

// recovers reports what is wrong if, without further faults, places do not all become usable again, first by each process alone and
// then by all in fair parts.
func (w *world) recovers(o *Options) string {
	calm, _ := w.next(0)
	calm.left = Faults{}
	calm.flight = nil
	calm.commits = nil
	var living []int
	for i, p := range calm.procs {
		c := *p
		calm.procs[i] = &c
		c.cut = false
		if !c.dead {
			living = append(living, i)
			c.own()
		}
	}
	if len(living) == 0 {
		return ""
	}
	for _, one := range living {
		for _, i := range living {
			calm.procs[i].demand = 0
		}
		calm.procs[one].demand = o.Cap
		calm.rounds(o, living)
		if p := calm.procs[one]; p.limit != o.Cap {
			return fmt.Sprintf("%s may use %d places of %d, although nobody else needs any", p.id, p.limit, o.Cap)
		}
	}
	for _, i := range living {
		calm.procs[i].demand = o.Cap
	}
	calm.rounds(o, living)
	sum := 0
	for _, i := range living {
		p := calm.procs[i]
		sum += p.limit
		if p.limit < o.Cap/len(living) {
			return fmt.Sprintf("%s may use %d places of %d, although it needs all", p.id, p.limit, o.Cap)
		}
	}
	if sum != o.Cap {
		return fmt.Sprintf("all may use %d places of %d, although they need them", sum, o.Cap)
	}
	return ""
}

// rounds lets all living processes make exchanges, and close what they have above their limits.
func (w *world) rounds(o *Options, living []int) {
	for range 10 {
		for _, i := range living {
			p := w.procs[i]
			p.state = nil
			for id := range p.known().Members {
				for _, q := range w.procs {
					if q.id == id && q.dead {
						p.holder.Died(id)
					}
				}
				if w.gone(id) {
					p.holder.Died(id)
				}
			}
			p.used = min(p.used, p.limit)
			r := p.report(o.Cap, true)
			r.Settle = r.Settle && w.maySettle()
			p.used = min(p.used, p.limit)
			w.answered(p, r, w.exchange(o, r))
			p.state = nil
		}
	}
}

// gone reports whether a process is none of the world's any more: another has taken its place.
func (w *world) gone(id fleet.ID) bool {
	for _, p := range w.procs {
		if p.id == id {
			return false
		}
	}
	return true
}
