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
	Proxies int // at most 3
	Cap     int // places of the server, at most 15
	Faults  Faults
	// LeftOut are rules of the protocol that are left out, to see that the exploration finds what they are for.
	LeftOut fleet.Guards
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

// String returns the result in one line.
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

// batch are states that were seen and whose steps have not been taken yet.
type batch struct {
	worlds  []world
	history history
}

// batchSize is how many states a batch has at most.
const batchSize = 512

// history says how states were reached: by which step, in the order of [machine.step], from which other one, by their numbers.
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
	w.ledgers[current] = ledger{exists: true, own: true, unused: true}
	for i := range o.Proxies {
		w.proxies[i].holder.needsFull = true
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
		machines[i] = newMachine(&o, x.seeds)
	}
	first := start(&o)
	x.seen.add(first.key(&x.seeds))
	x.states.Store(1)
	x.level, x.first = []batch{{worlds: []world{*first}}}, []int{0}
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
			for _, b := range f.batches {
				x.first = append(x.first, len(x.history.from))
				x.level = append(x.level, b)
				x.history.from = append(x.history.from, b.history.from...)
				x.history.step = append(x.history.step, b.history.step...)
				following += len(b.worlds)
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
		if n := len(f.batches); n == 0 || len(f.batches[n-1].worlds) == batchSize {
			f.batches = append(f.batches, batch{})
		}
		b := &f.batches[len(f.batches)-1]
		b.worlds = append(b.worlds, *w)
		b.history.from, b.history.step = append(b.history.from, uint32(number)), append(b.history.step, uint16(step-1))
		if x.o.Most > 0 && states >= int64(x.o.Most) {
			x.stop.Store(true)
		}
	}
	for {
		n := int(x.next.Add(1)) - 1
		if n >= len(x.level) {
			return
		}
		worlds := x.level[n].worlds
		x.level[n] = batch{} // its memory is no longer needed
		for i := range worlds {
			if x.o.For > 0 && i%256 == 0 && time.Since(x.began) > x.o.For {
				x.stop.Store(true)
			}
			if x.stop.Load() {
				return
			}
			number, step = x.first[n]+i, 0
			m.step(&worlds[i])
		}
	}
}

// trace returns the names of the steps that lead to a step, by taking them again. Proxies keep their names.
func (x *exploration) trace(from, last int) []string {
	steps := []int{last}
	for i := from; i > 0; i = int(x.history.from[i]) {
		steps = append(steps, int(x.history.step[i]))
	}
	m := newMachine(x.o, x.seeds)
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
				for i, position := range m.positions {
					next[i] = m.labels[position]
				}
				label = string(next[:])
			}
			n--
		}
		m.step(&from)
	}
	return all
}

// seen is a set of keys that several goroutines use.
type seen [256]struct {
	mu   sync.Mutex
	keys map[key]struct{} // guarded by mu
}

// add adds a key, and reports whether it is new.
func (s *seen) add(k key) bool {
	p := &s[k[1]>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = make(map[key]struct{})
	}
	before := len(p.keys)
	p.keys[k] = struct{}{}
	return len(p.keys) > before
}

// settleAccounts counts by how much the cap is exceeded since a process that was declared dead has come back. It only goes down, as places
// are given back.
func (m *machine) settleAccounts(w *world) {
	declared := w.excess > 0
	for i := range m.o.Proxies {
		declared = declared || w.proxies[i].declared
	}
	if !declared {
		return
	}
	beyond := func() uint8 { return uint8(max(0, m.charged(w)-m.o.Cap)) }
	l := &w.ledgers[current]
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		// An old report may bring it back before it has heard of the epoch. It has nothing of what the process has.
		if id := m.o.id(i, p); p.declared && l.members.has(id) && l.reported[id] == reportedHere && here(p.at.relation[current]) {
			p.declared = false
			w.excess = max(w.excess, beyond())
		}
	}
	w.excess = min(w.excess, beyond())
}

// charged is how many places are granted or may be used, apart from those of processes that were declared dead.
func (m *machine) charged(w *world) int {
	granted := w.ledgers[current].grants // all of them, also of processes that are gone
	sum := 0
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		id := m.o.id(i, p)
		if !p.declared {
			sum += int(max(p.may(), granted.of[id].places))
		}
		granted.of[id].places = 0
	}
	for id := range granted.of {
		sum += int(granted.of[id].places)
	}
	return sum
}

// check returns what is wrong in a world; empty if nothing is.
func (m *machine) check(w *world) string {
	sum := 0
	for i := range m.o.Proxies {
		if p := &w.proxies[i]; !p.declared {
			sum += int(p.may())
		}
	}
	if most := m.o.Cap + int(w.excess); sum > most {
		return fmt.Sprintf("there may be %d connections to a server with %d places", sum, most)
	}
	l := &w.ledgers[current]
	if !l.own {
		return "" // no proxy has asked the new database yet
	}
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		id := m.o.id(i, p)
		if p.dead || p.declared || !m.joined(w, i) {
			continue
		}
		if granted := l.grants.of[id].places; p.may() > granted {
			return m.text(w, "%s may have %d connections, and the ledger has %d places for it", []int{i, int(p.may()), int(granted)})
		}
	}
	return ""
}

// recovers reports what is wrong if, without further faults, places do not all become usable again, first by each process alone and
// then by all in fair parts.
func (m *machine) recovers(from *world) string {
	w := *from
	w.left = faults{}
	w.flights = [maxFlights]flight{}
	var living []int
	for i := range m.o.Proxies {
		if p := &w.proxies[i]; !p.dead {
			p.cut = false
			living = append(living, i)
		}
	}
	if len(living) == 0 {
		return ""
	}
	w.normalise(m.o)
	for _, one := range living {
		m.rounds(&w, living, func(i int) int {
			if i == one {
				return m.o.Cap
			}
			return 0
		})
		if n := int(w.proxies[one].holder.limit); n != m.o.Cap {
			return m.text(&w, "%s may use %d places of %d, although no other needs any", []int{one, n, m.o.Cap})
		}
	}
	m.rounds(&w, living, func(int) int { return m.o.Cap })
	sum := 0
	for _, i := range living {
		n := int(w.proxies[i].holder.limit)
		sum += n
		if n < m.o.Cap/len(living) {
			return m.text(&w, "%s may use %d places of %d, although it needs all", []int{i, n, m.o.Cap})
		}
	}
	if sum != m.o.Cap {
		return fmt.Sprintf("all may use %d places of %d, although they need them", sum, m.o.Cap)
	}
	return ""
}

// rounds lets all living processes make exchanges, and close what they have above their limits, until nothing changes.
func (m *machine) rounds(w *world, living []int, demand func(i int) int) {
	for range 10 {
		before := *w
		for _, i := range living {
			p := &w.proxies[i]
			settles, cuts := m.maySettle(w, i)
			c := choice{used: min(p.used, p.holder.limit), demand: uint8(demand(i)), proven: p.holder.members & m.ended(w)}
			q := m.question(w, i, c)
			q.waits = settles && cuts == 0
			q.simplify()
			r := m.answers(q)[0] // that of the order that IDs keep from now on
			m.complete(&r, w, i)
			m.begin(w)
			m.to.proxies[i].used = c.used
			m.answered(i, &r)
			m.settleAccounts(m.to)
			m.to.normalise(m.o)
			m.to.nameEpochs()
			*w = *m.to
		}
		if *w == before {
			return
		}
	}
}
