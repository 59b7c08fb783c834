package explore

import (
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what is explored.
type Options struct {
	Proxies int // at most 3
	Cap     int // places of the server, at most 15
	Faults  Faults
	// Ordered: the IDs of proxies keep their order. Otherwise each step is taken with each order, and proxies are interchangeable.
	Ordered bool
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
}

// problem returns why the options cannot be explored; empty if they can.
func (o *Options) problem() string {
	switch {
	case o.Proxies < 1 || o.Proxies > maxProxies:
		return fmt.Sprintf("%d proxies: 1 to %d are possible", o.Proxies, maxProxies)
	case o.Cap < 1 || o.Cap > 15:
		return fmt.Sprintf("a cap of %d: 1 to 15 is possible", o.Cap)
	case o.Proxies*o.generations() > maxIDs:
		return fmt.Sprintf("%d restarts of %d proxies: there can be %d processes", o.Faults.Restarts, o.Proxies, maxIDs)
	case o.Faults.Delays+o.Faults.Answers > maxFlights:
		return fmt.Sprintf("%d delays: at most %d reports and answers can be under way", o.Faults.Delays+o.Faults.Answers, maxFlights)
	case o.Faults.Lost > maxCommits:
		return fmt.Sprintf("%d lost commits: at most %d are possible", o.Faults.Lost, maxCommits)
	}
	return ""
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
	if r.Complete {
		s += ", complete"
	} else {
		s += ", not complete"
	}
	if r.Wrong != "" {
		s += ": " + r.Wrong + ":\n  " + strings.Join(r.Trace, "\n  ")
	}
	return s
}

// batch are states that were seen and whose steps have not been taken yet, packed one after the other. From, and the step in the order of
// [machine.step], say how each was reached.
type batch struct {
	packed []byte
	count  int
}

// batchBytes is about how large a batch gets.
const batchBytes = 256 << 10

// history says how states were reached: by which step from which other one, by their numbers.
type history struct {
	from []uint32
	step []uint16
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

	// level are the states at one distance from the start, and first is the number of the first of each batch.
	level   []batch
	first   []int
	history history
}

// found is what one worker has found at one level.
type found struct {
	batches     []batch
	histories   []history // by batch
	steps, live int
	wrong       string
	from        int // the last step, if something is wrong
	step        int
}

// start returns the world in which nothing has happened.
func start(o *Options) *world {
	f := o.Faults
	w := &world{left: faults{
		total: uint8(f.Total), losses: uint8(f.Losses), delays: uint8(f.Delays), answers: uint8(f.Answers), crashes: uint8(f.Crashes),
		restarts: uint8(f.Restarts), cuts: uint8(f.Cuts), timeouts: uint8(f.Timeouts), forgets: uint8(f.Forgets), databases: uint8(f.Databases),
		lost: uint8(f.Lost),
	}}
	w.ledgers[current] = ledger{exists: true, own: true, virgin: true}
	for i := range o.Proxies {
		w.proxies[i].holder.whole = true
	}
	w.normalise(o)
	w.nameEpochs()
	return w
}

// Explore visits all states, nearest first, and stops at the first in which something is wrong. It panics if the options are not possible.
func Explore(o Options) *Result {
	if problem := o.problem(); problem != "" {
		panic("explore: " + problem)
	}
	began := time.Now()
	r := &Result{}
	x := &exploration{o: &o, began: began, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	machines := make([]*machine, max(1, o.Workers))
	for i := range machines {
		machines[i] = newMachine(&o)
	}
	first := start(&o)
	x.seen.add(first.key(&x.seeds))
	x.states.Store(1)
	x.level, x.first = []batch{{first.pack(nil), 1}}, []int{0}
	x.history = history{[]uint32{0}, []uint16{0}}
	for len(x.level) > 0 && !x.stop.Load() {
		results := make([]found, len(machines))
		x.next.Store(0)
		var group sync.WaitGroup
		for i, m := range machines {
			group.Go(func() { x.work(m, &results[i]) })
		}
		group.Wait()
		x.level, x.first = x.level[:0], x.first[:0]
		following := 0
		for i := range results {
			f := &results[i]
			r.Steps += f.steps
			r.Live += f.live
			if f.wrong != "" && r.Wrong == "" {
				r.Wrong, r.Trace = f.wrong, x.trace(f.from, f.step)
			}
			for j, b := range f.batches {
				x.first = append(x.first, len(x.history.from))
				x.level = append(x.level, b)
				x.history.from = append(x.history.from, f.histories[j].from...)
				x.history.step = append(x.history.step, f.histories[j].step...)
				following += b.count
			}
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "%4d steps from the start: %d states, %d of them new, %.0f s\n", r.Depth, x.states.Load(), following, time.Since(began).Seconds())
		}
		if following > 0 {
			r.Depth++
		}
	}
	r.Complete = len(x.level) == 0 && !x.stop.Load()
	r.States, r.Time = int(x.states.Load()), time.Since(began)
	return r
}

// work takes the steps of states of the level until there are no more.
func (x *exploration) work(m *machine, f *found) {
	var from world
	var number, step int
	m.found = func(w *world, problem string) {
		f.steps++
		step++
		k := w.key(&x.seeds)
		if !x.seen.add(k) || x.stop.Load() {
			return
		}
		if f.wrong = problem; f.wrong == "" {
			f.wrong = m.check(w)
		}
		if f.wrong == "" && x.o.Live > 0 && k[0]%uint64(x.o.Live) == 0 {
			f.live++
			tried := *w // m.to is needed for it
			f.wrong = m.recovers(&tried)
			*w = tried
		}
		states := x.states.Add(1)
		if f.wrong != "" {
			f.from, f.step = number, step-1
			x.stop.Store(true)
			return
		}
		if n := len(f.batches); n == 0 || len(f.batches[n-1].packed) >= batchBytes {
			f.batches = append(f.batches, batch{})
			f.histories = append(f.histories, history{})
		}
		last := len(f.batches) - 1
		b, h := &f.batches[last], &f.histories[last]
		b.packed = w.pack(b.packed)
		b.count++
		h.from, h.step = append(h.from, uint32(number)), append(h.step, uint16(step-1))
		if x.o.Most > 0 && states >= int64(x.o.Most) {
			x.stop.Store(true)
		}
	}
	for {
		n := int(x.next.Add(1)) - 1
		if n >= len(x.level) {
			return
		}
		b := x.level[n]
		x.level[n].packed = nil // it is not needed any more
		for i := range b.count {
			if x.o.For > 0 && i%256 == 0 && time.Since(x.began) > x.o.For {
				x.stop.Store(true)
			}
			if x.stop.Load() {
				return
			}
			b.packed = from.unpack(b.packed)
			number, step = x.first[n]+i, 0
			m.step(&from)
		}
	}
}

// trace returns the names of the steps that lead to a step, by taking them again. Proxies keep their names.
func (x *exploration) trace(from, last int) []string {
	steps := []int{last}
	for i := from; i > 0; i = int(x.history.from[i]) {
		steps = append(steps, int(x.history.step[i]))
	}
	m := newMachine(x.o)
	m.named = true
	var all []string
	w := *start(x.o)
	label := "abc"
	for len(steps) > 0 {
		n := steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		from := w
		m.labels = label
		m.found = func(to *world, _ string) {
			if n == 0 {
				w = *to
				all = append(all, m.name)
				var next [maxProxies]byte
				for i, slot := range m.slots {
					next[i] = m.labels[slot]
				}
				label = string(next[:])
			}
			n--
		}
		m.step(&from)
	}
	return all
}
