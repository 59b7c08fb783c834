package explore

import (
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"sync/atomic"
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
	// For is after how long the exploration gives up; 0 for never.
	For time.Duration
	// Live is of how many states one is checked for whether all places become usable again; 0 for none. Which ones is random.
	Live int
	// Workers is how many goroutines explore; 0 for one.
	Workers int
	// Progress gets a line now and then; nil for none.
	Progress io.Writer

	named bool // steps have names
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

// visited is how a state was reached: by which step, in the order of [world.steps], from which state.
type visited struct {
	from int32
	step uint16
}

// entry is a state that was seen and whose steps have not been taken yet.
type entry struct {
	w  *world
	at visited
}

// exploration is the work of one call of Explore.
type exploration struct {
	o      *Options
	seeds  [2]maphash.Seed
	seen   seen
	states atomic.Int64
	stop   atomic.Bool // something is wrong, or there are enough states, or it takes too long
	began  time.Time
	next   atomic.Int64

	// level are the states at one distance from the start, and first is the index of the first of them in history.
	level   []entry
	first   int
	history []visited
}

// found is what one worker has found at one level.
type found struct {
	following   []entry
	steps, live int
	wrong       string
	at          visited // of the last step, if something is wrong
}

// Explore visits all states, nearest first, and stops at the first in which something is wrong.
func Explore(o Options) *Result {
	began := time.Now()
	r := &Result{}
	x := &exploration{o: &o, began: began, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	writers := make([]*writer, max(1, o.Workers))
	for i := range writers {
		writers[i] = newWriter(x.seeds)
	}
	x.seen.init()
	first := start(&o)
	x.seen.add(writers[0].key(first))
	x.states.Store(1)
	x.level, x.history = []entry{{w: first}}, []visited{{}}
	for len(x.level) > 0 && !x.stop.Load() {
		results := make([]found, len(writers))
		x.next.Store(0)
		var group sync.WaitGroup
		for i, k := range writers {
			group.Go(func() { x.work(k, &results[i]) })
		}
		group.Wait()
		var following []entry
		x.first = len(x.history)
		for i := range results {
			f := &results[i]
			r.Steps += f.steps
			r.Live += f.live
			if f.wrong != "" && r.Wrong == "" {
				r.Wrong, r.Trace = f.wrong, x.trace(f.at)
			}
			for _, e := range f.following {
				x.history = append(x.history, e.at)
			}
			following = append(following, f.following...)
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "%4d steps from the start: %d states, %d of them new, %.0f s\n", r.Depth, x.states.Load(), len(following), time.Since(began).Seconds())
		}
		x.level = following
		if len(following) > 0 {
			r.Depth++
		}
	}
	r.Complete = len(x.level) == 0 && !x.stop.Load()
	r.States, r.Time = int(x.states.Load()), time.Since(began)
	return r
}

// work takes the steps of states of the level until there are no more.
func (x *exploration) work(k *writer, f *found) {
	const batch = 16
	for !x.stop.Load() {
		to := int(x.next.Add(batch))
		from := to - batch
		if from >= len(x.level) {
			return
		}
		if x.o.For > 0 && time.Since(x.began) > x.o.For {
			x.stop.Store(true)
			return
		}
		for i := from; i < min(to, len(x.level)); i++ {
			w := x.level[i].w
			x.level[i].w = nil // it is not needed any more
			for n, s := range w.steps(x.o) {
				f.steps++
				id := k.key(s.to)
				if !x.seen.add(id) {
					continue
				}
				at := visited{int32(x.first + i), uint16(n)}
				f.wrong = s.to.check(x.o)
				if f.wrong == "" && x.o.Live > 0 && id[0]%uint64(x.o.Live) == 0 {
					f.live++
					f.wrong = s.to.recovers(x.o)
				}
				states := x.states.Add(1)
				if f.wrong != "" {
					f.at = at
					x.stop.Store(true)
					return
				}
				f.following = append(f.following, entry{s.to, at})
				if x.o.Most > 0 && states >= int64(x.o.Most) {
					x.stop.Store(true)
					return
				}
			}
		}
	}
}

// trace returns the names of the steps that lead somewhere, by taking them again.
func (x *exploration) trace(at visited) []string {
	steps := []uint16{at.step}
	for i := at.from; i > 0; i = x.history[i].from {
		steps = append(steps, x.history[i].step)
	}
	o := *x.o
	o.named = true
	var names []string
	for w := start(&o); len(steps) > 0; steps = steps[:len(steps)-1] {
		s := w.steps(&o)[steps[len(steps)-1]]
		names = append(names, s.name)
		w = s.to
	}
	return names
}

// seen is a set of keys that several goroutines use.
type seen [64]struct {
	mu   sync.Mutex
	keys map[key]struct{} // guarded by mu
}

func (s *seen) init() {
	for i := range s {
		s[i].keys = make(map[key]struct{})
	}
}

// add adds a key, and reports whether it is new.
func (s *seen) add(k key) bool {
	part := &s[k[1]%uint64(len(s))]
	part.mu.Lock()
	defer part.mu.Unlock()
	if _, ok := part.keys[k]; ok {
		return false
	}
	part.keys[k] = struct{}{}
	return true
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
			for _, known := range p.known().Members {
				id := known.ID
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
			settles, cuts := w.maySettle(i)
			r.Settle = r.Settle && settles && len(cuts) == 0
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
