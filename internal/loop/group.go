package loop

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Mover is a [Handler] that can be taken to another loop, together with all that belongs to it (see [Move]). Of the
// connections that belong together only one may have a handler that is a Mover.
type Mover interface {
	Handler
	// MoveTo moves everything to the other loop. It is called on the present one, between events.
	MoveTo(to *Loop)
}

// Group is the event loops of a process. Only some of them are awake: a connection goes to one of those, and its
// governor wakes another when they are busy and empties one when fewer would do, since fewer busy loops relay a message
// for less CPU than many idle ones. Its methods may be called from any goroutine.
type Group struct {
	loops   []*Loop
	started atomic.Int32 // loops that run; the others have not been needed yet
	awake   atomic.Int32
	// Static.
	most int     // loops awake; 0 for as many as the process may use processors
	use  IOURing // for loops that are started later
	raw  bool    // loops keep their P while they wait
	book *processorBook

	governor governor                  // govern's
	shares   atomic.Pointer[[]float64] // busy shares of all loops at the last look
	moved    atomic.Uint64
	quit     chan struct{}
	done     chan struct{}
}

// Options are the settings of a group. The zero value means the defaults.
type Options struct {
	// Max is the largest number of loops awake; by default it is, and follows, what Processors returns.
	Max int
	// Min is the smallest number of loops awake; default 1.
	Min int
	// IOURing says whether the loops send with io_uring; default IOURingOff.
	IOURing IOURing
	// Wait says how the loops wait; default WaitAuto.
	Wait Wait
	// Interval is the time between two looks at how busy the loops are; default 250 ms.
	Interval time.Duration

	book *processorBook // for tests; default the process's
}

// NewGroup starts the loops. Close ends them.
func NewGroup(o Options) (*Group, error) {
	if o.book == nil {
		o.book = processors
	}
	if o.Wait == "" {
		o.Wait = WaitAuto
	}
	raw, err := o.Wait.raw()
	if err != nil {
		return nil, err
	}
	made, first := o.Max, o.Max
	if o.Max <= 0 { // there may be more later: as many as there are processors
		first = o.book.count()
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
	g := &Group{most: max(o.Max, 0), use: o.IOURing, raw: raw, book: o.book, quit: make(chan struct{}), done: make(chan struct{})}
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

// startNext has one more loop run.
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

// addProcessors gives the scheduler n more Ps, or takes some back, if loops keep theirs while they wait.
func (g *Group) addProcessors(n int) {
	if g.raw {
		g.book.add(n)
	}
}

// highest returns how many loops may be awake at present.
func (g *Group) highest() int {
	if g.most > 0 {
		return g.most
	}
	return min(max(g.book.count(), g.governor.lowest), len(g.loops))
}

// Pick returns the loop for a new connection: the awake one with the fewest.
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

// Loops returns all loops, awake or not. Those that were never needed do not run yet: what is posted to them is not called.
func (g *Group) Loops() []*Loop { return g.loops }

// Connections returns how many connections the loops have.
func (g *Group) Connections() (n int64) {
	for _, l := range g.loops {
		n += l.load.Load()
	}
	return n
}

// IOURing tells whether the loops send with io_uring; if not, and that was to be tried, the error says why not.
func (g *Group) IOURing() (used bool, refused error) { return g.loops[0].driver.ring() }

// Stats describes one loop.
type Stats struct {
	ID          int     `json:"id"`
	Awake       bool    `json:"awake"`
	Connections int64   `json:"connections"`
	Busy        float64 `json:"busy"` // share of a processor that it used, from 0 to 1, over the last interval
}

// Stats describes all loops and says how many connections and sessions have been moved between them.
func (g *Group) Stats() (loops []Stats, moved uint64) {
	shares, awake := *g.shares.Load(), int(g.awake.Load())
	for i, l := range g.loops[:g.started.Load()] {
		loops = append(loops, Stats{ID: i, Awake: i < awake, Connections: l.load.Load(), Busy: shares[i]})
	}
	return loops, g.moved.Load()
}

// govern measures how busy the loops are and acts on what the governor decides.
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
		g.book.look(time.Now())
		g.governor.highest = g.highest()
		g.act(g.governor.decide(shares[:awake]))
	}
}

// share tells which part of a processor each loop used, given the events that each handled and what the process used in
// all. It is processor time that counts, and not the time during which a loop was at work: where other processes take the
// processors, loops take longer, and more of them would not help. And it costs nothing while frames pass.
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

// act carries a decision out.
func (g *Group) act(d decision) {
	awake := int(g.awake.Load())
	switch d.verdict {
	case wakeOne:
		woken := g.loops[awake]
		if awake == int(g.started.Load()) && g.startNext() != nil {
			return // something is short; those that are awake go on alone, and it is tried again when they are busy
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

// shed moves a share of what loop l has to the others, in turn.
func (g *Group) shed(l *Loop, share float64, to ...*Loop) {
	l.Post(func() {
		var movers []Mover
		l.driver.each(func(c *Conn) {
			if m, ok := c.handler.(Mover); ok {
				movers = append(movers, m)
			}
		})
		movers = movers[:int(share*float64(len(movers))+0.5)]
		for i, m := range movers {
			m.MoveTo(to[i%len(to)])
		}
		g.moved.Add(uint64(len(movers)))
	})
}
