package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// Mover is a [Handler] that can move to another loop, together with everything that belongs to it (see [Move]). Of connections
// that belong together, only one may have a handler that is a Mover.
type Mover interface {
	Handler
	// MoveTo moves everything to the other loop. It is called on the current loop, between events.
	MoveTo(to *Loop)
}

// Group is the event loops of a process. Only some of them are awake, and new connections go to those. The group's governor wakes
// another loop when they are busy, and empties one when fewer would do, because a few busy loops need less CPU for each message
// than many idle ones. Any goroutine may call its methods.
type Group struct {
	// Static after NewGroup.
	loops   []*Loop
	most    int     // the largest number of awake loops; 0 for as many as the process may use processors
	use     IOURing // for loops that are started later
	raw     bool    // loops keep their P while they wait
	budget  *processorBudget
	onPanic func(any)     // Options.OnPanic
	quit    chan struct{} // closed by Close
	done    chan struct{} // closed when govern has ended

	governor governor // owned by govern's goroutine

	// Written by govern's goroutine and the loops, read by any.
	started atomic.Int32              // loops that run; the others have not been needed yet
	awake   atomic.Int32              // how many loops are awake: the first ones of the group
	shares  atomic.Pointer[[]float64] // how busy each loop was over the last interval
	moved   atomic.Uint64             // how many handlers were moved to another loop
}

// Options are the settings of a group. The zero value means the defaults.
type Options struct {
	// Max is the largest number of awake loops; default what Processors returns, also when that changes.
	Max int
	// Min is the smallest number of awake loops; default 1.
	Min int
	// IOURing says whether the loops send with io_uring; default IOURingOff.
	IOURing IOURing
	// Wait says how the loops wait; default WaitAuto.
	Wait Wait
	// OnPanic is called with the value of a panic of a handler or of a posted function, by a deferred function. The connection is
	// then retired (see [Retirer]), and the loop continues. By default, panics are not recovered from.
	OnPanic func(value any)
	// Interval is how often the group measures how busy the loops are; default 250 ms.
	Interval time.Duration

	budget *processorBudget // for tests; default the process's
}

// NewGroup starts the loops, and a goroutine that governs them. Close ends them all.
func NewGroup(o Options) (*Group, error) {
	if o.budget == nil {
		o.budget = processors
	}
	if o.Wait == "" {
		o.Wait = WaitAuto
	}
	raw, err := o.Wait.raw()
	if err != nil {
		return nil, err
	}
	made, first := o.Max, o.Max
	if o.Max <= 0 { // later there may be as many as there are processors
		first = o.budget.count()
		made = max(first, runtime.NumCPU())
	}
	o.Min = min(max(o.Min, 1), first)
	if o.IOURing == "" {
		o.IOURing = IOURingOff
	}
	if err := o.IOURing.check(); err != nil {
		return nil, err
	}
	if o.Interval <= 0 {
		o.Interval = 250 * time.Millisecond
	}
	g := &Group{most: max(o.Max, 0), use: o.IOURing, raw: raw, onPanic: o.OnPanic, budget: o.budget, quit: make(chan struct{}), done: make(chan struct{})}
	g.awake.Store(int32(o.Min))
	g.governor = governor{lowest: o.Min, highest: first}
	for i := range made {
		g.loops = append(g.loops, newLoop(i, g))
	}
	for range first {
		if err := g.startNext(); err != nil {
			g.stopAll()
			return nil, err
		}
	}
	g.addProcessors(o.Min)
	shares := make([]float64, made)
	g.shares.Store(&shares)
	go g.govern(o.Interval)
	return g, nil
}

// Close ends all loops and closes the connections that they still have.
func (g *Group) Close() {
	close(g.quit)
	<-g.done
	g.addProcessors(-int(g.awake.Load()))
	g.stopAll()
}

// startNext starts one more loop.
func (g *Group) startNext() error {
	n := g.started.Load()
	if err := g.loops[n].start(g.use); err != nil {
		return err
	}
	g.started.Store(n + 1)
	return nil
}

func (g *Group) stopAll() {
	for _, l := range g.loops[:g.started.Load()] {
		l.stop()
	}
}

// addProcessors gives the scheduler n more Ps, or takes some back if n is negative, if loops keep their P while they wait.
func (g *Group) addProcessors(n int) {
	if g.raw {
		g.budget.add(n)
	}
}

// highest returns how many loops may be awake at present.
func (g *Group) highest() int {
	if g.most > 0 {
		return g.most
	}
	return min(max(g.budget.count(), g.governor.lowest), len(g.loops))
}

// Pick returns the loop for a new connection: the awake one with the fewest connections.
func (g *Group) Pick() *Loop {
	awake := g.loops[:g.awake.Load()]
	best := awake[0]
	for _, l := range awake[1:] {
		if l.load.Load() < best.load.Load() {
			best = l
		}
	}
	return best
}

// Loops returns all loops, awake or not. Those that have not been needed yet do not run: Post and Call return false.
func (g *Group) Loops() []*Loop { return g.loops }

// Connections returns how many connections the loops have.
func (g *Group) Connections() (n int64) {
	for _, l := range g.loops {
		n += l.load.Load()
	}
	return n
}

// IOURing reports whether the loops send with io_uring. If they do not although it was asked for, the error says why.
func (g *Group) IOURing() (used bool, refused error) { return g.loops[0].driver.ring() }

// Stats describes one loop.
type Stats struct {
	ID          int
	Awake       bool
	Connections int64
	Busy        float64 // the share of a processor, from 0 to 1, that it used over the last interval
}

// Stats describes the loops that run, and returns how many sessions and idle connections have moved between loops.
func (g *Group) Stats() (loops []Stats, moved uint64) {
	shares, awake := *g.shares.Load(), int(g.awake.Load())
	for i, l := range g.loops[:g.started.Load()] {
		loops = append(loops, Stats{ID: i, Awake: i < awake, Connections: l.load.Load(), Busy: shares[i]})
	}
	return loops, g.moved.Load()
}

// Turns returns how long the turns of all loops took, from the end of a wait to the beginning of the next.
func (g *Group) Turns() (d meter.Distribution) {
	for _, l := range g.loops {
		turns := l.times.Read()
		d.Add(&turns)
	}
	return d
}

// govern measures how busy the loops are, and carries out what the governor decides. It is a goroutine that Close ends.
func (g *Group) govern(interval time.Duration) {
	defer close(g.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before := make([]uint64, len(g.loops))
	last, lastUsed := time.Now(), processTime()
	for {
		select {
		case <-g.quit:
			return
		case <-ticker.C:
		}
		awake := int(g.awake.Load())
		work := make([]uint64, len(g.loops))
		for i, l := range g.loops[:awake] {
			var now uint64
			l.Call(func() { now = l.work })
			work[i], before[i] = now-before[i], now
		}
		now, used := time.Now(), processTime()
		shares := share(work, float64(used-lastUsed)/float64(now.Sub(last)))
		last, lastUsed = now, used
		g.shares.Store(&shares)
		g.budget.refresh(time.Now())
		g.governor.highest = g.highest()
		g.act(g.governor.decide(shares[:awake]))
	}
}

// share returns which share of a processor each loop used, given how many events each has handled and how many processors the
// process used in all. What counts is processor time, not the time that a loop was at work: if other processes take the
// processors, loops take longer, and more loops would not help. And processor time costs nothing while frames pass.
func share(work []uint64, used float64) []float64 {
	total := uint64(0)
	for _, n := range work {
		total += n
	}
	shares := make([]float64, len(work))
	if total > 0 {
		for i, n := range work {
			shares[i] = min(1, used*float64(n)/float64(total))
		}
	}
	return shares
}

// act carries out a decision.
func (g *Group) act(d decision) {
	awake := int(g.awake.Load())
	switch d.verdict {
	case wakeOne:
		woken := g.loops[awake]
		if awake == int(g.started.Load()) && g.startNext() != nil {
			return // something is short on this machine: the awake loops continue alone, and the governor will decide again
		}
		g.addProcessors(1)
		g.awake.Store(int32(awake + 1))
		for _, l := range g.loops[:awake] {
			g.shed(l, 1/float64(awake+1), woken)
		}
	case parkOne:
		g.awake.Store(int32(awake - 1))
		g.shed(g.loops[awake-1], 1, g.loops[:awake-1]...)
		g.addProcessors(-1)
	case balance:
		g.shed(g.loops[d.from], d.share, g.loops[d.to])
	}
}

// movedPerTurn is how many handlers a loop moves before it looks after its sockets: 32 sessions take about 200 us.
const movedPerTurn = 32

// shed moves a share of the movable handlers of loop l to the other loops, in turn.
func (g *Group) shed(l *Loop, share float64, to ...*Loop) {
	l.Post(func() {
		var movers []*Conn
		l.driver.each(func(c *Conn) {
			if _, ok := As[Mover](c.handler); ok {
				movers = append(movers, c)
			}
		})
		g.move(l, movers[:int(share*float64(len(movers))+0.5)], to)
	})
}

// move moves the handlers of those connections, some in each turn of loop l, which calls it.
func (g *Group) move(l *Loop, conns []*Conn, to []*Loop) {
	now := conns[:min(movedPerTurn, len(conns))]
	for i, c := range now {
		if !c.IsOn(l) || c.closed { // since an earlier turn
			continue
		}
		h, ok := As[Mover](c.handler)
		if !ok {
			continue
		}
		l.Handling(c)
		h.MoveTo(to[i%len(to)])
		g.moved.Add(1)
	}
	rest := conns[len(now):]
	if len(rest) == 0 {
		return
	}
	next := func() { g.move(l, rest, to) }
	// A loop that takes them asks for more, so that it does not get all of them in one turn either.
	if taker := to[len(rest)/movedPerTurn%len(to)]; !taker.Post(func() { l.Post(next) }) {
		l.Post(next)
	}
}

// Responds returns nil as soon as each loop has called a function that was posted to it, which a busy one does between two batches of
// events. When ctx ends before, the error names a loop that has not. A loop that has stopped counts as one that has. It must not
// be called on a loop.
func (g *Group) Responds(ctx context.Context) error {
	loops := g.loops[:g.started.Load()]
	called := make(chan int, len(loops))
	missing := make(map[int]bool, len(loops))
	for i, l := range loops {
		if l.Post(func() { called <- i }) {
			missing[i] = true
		}
	}
	for len(missing) > 0 {
		select {
		case i := <-called:
			delete(missing, i)
		case <-ctx.Done():
			for i := range loops {
				if missing[i] {
					return fmt.Errorf("event loop %d does not respond: %w", i, ctx.Err())
				}
			}
		}
	}
	return nil
}

// Wait says how loops wait for their sockets while these are busy.
type Wait string

// The values of Wait.
const (
	WaitAuto  Wait = "auto"  // like WaitRaw where that works, and like WaitBlock elsewhere
	WaitRaw   Wait = "raw"   // without telling the Go scheduler, which costs less; NewGroup fails where that does not work
	WaitBlock Wait = "block" // in an ordinary system call
)

// Waits returns the values of Wait.
func Waits() []string { return []string{string(WaitAuto), string(WaitRaw), string(WaitBlock)} }

// preemptible reports whether the scheduler sends signals to threads that keep a P. This can be turned off, for debugging. A loop that
// kept its P would then block a garbage collection, and with it the whole process, for as long as its sockets are silent.
var preemptible = !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")

// raw reports whether loops keep their P while they wait.
func (w Wait) raw() (bool, error) {
	switch {
	case !slices.Contains(Waits(), string(w)):
		return false, fmt.Errorf("unknown way to wait %q: use one of %s", string(w), strings.Join(Waits(), ", "))
	case w == WaitBlock:
		return false, nil
	case w == WaitAuto:
		return canWaitRaw && preemptible, nil
	case !canWaitRaw:
		return false, errors.New("waiting outside the Go scheduler needs Linux")
	case !preemptible:
		return false, errors.New("waiting outside the Go scheduler needs its signals, which GODEBUG=asyncpreemptoff=1 turns off")
	}
	return true, nil
}

// IOURing says whether loops send with io_uring, which takes one system call for writes to several connections.
type IOURing string

// The values of IOURing.
const (
	IOURingAuto IOURing = "auto" // where the kernel allows it
	IOURingOn   IOURing = "on"   // NewGroup fails where the kernel does not
	IOURingOff  IOURing = "off"
)

// IOURings returns the values of IOURing.
func IOURings() []string { return []string{string(IOURingAuto), string(IOURingOn), string(IOURingOff)} }

// check returns an error if u is none of the values.
func (u IOURing) check() error {
	if slices.Contains(IOURings(), string(u)) {
		return nil
	}
	return fmt.Errorf("unknown way to send %q: use one of %s", string(u), strings.Join(IOURings(), ", "))
}
