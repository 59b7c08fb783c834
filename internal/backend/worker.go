package backend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/machine"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

const (
	tick = 5 * time.Second // between two looks at the pool without a signal, plus jitter

	// Connections that are lost within this time, before they served a session, count like those that could not be
	// established, from so many in a row on: a server that accepts connections only to close them must not be flooded
	// with more.
	probation = time.Second
	strikes   = 3

	rampSteps = 10 // in which a recovered backend gets its full share back
)

// worker brings a backend's pool to the wanted size, and decides from failures whether the backend is used. It is one
// goroutine that alone decides to dial or to retire idle connections; everybody else only signals it, and many signals are
// one. It knows nothing of sockets, so that it can be tested without any.
type worker[C any] struct {
	// Static.
	pool   *pool.Pool[C]
	report *report
	now    func() pool.Instant
	// establish dials a connection and fills the slot, or returns why it could not. It is called in a goroutine of its own.
	establish func(context.Context, *pool.Slot[C]) error
	// retire closes a connection whose slot is retiring. It must not block.
	retire func(C)
	// descriptors are what connections are dialed with; nil for without limits.
	descriptors *machine.Descriptors
	// guard recovers from panics; nil for not at all.
	guard *mistake.Guard

	wanted  chan struct{}  // of size one: look at the pool
	gone    chan struct{}  // of size one: the pool has changed, for Close
	results chan result[C] // from the dialing goroutines
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}

	// Owned by the worker's goroutine.
	limits
	circuit   circuit
	ceiling   ceiling
	dialing   int
	allowed   int                // dials at once for now: fewer after a failure
	shortTill time.Time          // no dialing before, since something was short on this machine
	lost      int                // connections in a row that were lost on probation
	lostAt    time.Time          // when the last of them was
	aheadAt   time.Time          // when connections may be dialed ahead again; zero when nothing speaks against it
	onTrial   time.Time          // when another that was dialed since was established; zero for not yet
	renewal   int                // how often the way of dialing has changed
	dials     context.Context    // of the dials since then
	stopDials context.CancelFunc // gives them up
	rampBegan time.Time          // when a recovered backend came back; zero when that is long ago
	ramp      int                // steps of it
	out       bool               // it is left out, because sessions fail on it and not on its peers
	usable    bool               // as the pool knows it
	dialable  bool               // as the pool knows it

	// conduct is what the backend's peers are compared by; never nil. It has a lock of its own.
	conduct *conduct

	mu         sync.Mutex
	news       news        // guarded by mu
	sessions   sessionBook // guarded by mu
	configured *limits     // guarded by mu: what limits is to be; nil for what it is
}

func (w *worker[C]) init() {
	w.wanted = make(chan struct{}, 1)
	w.gone = make(chan struct{}, 1)
	w.results = make(chan result[C])
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.dials, w.stopDials = context.WithCancel(w.ctx)
	w.done = make(chan struct{})
	w.circuit.after = w.failures
	if w.conduct == nil {
		w.conduct = new(conduct)
	}
	w.allowed, w.ramp, w.usable, w.dialable = w.parallel, rampSteps, true, true
}

// signal asks the worker to look at the pool. It never blocks.
func (w *worker[C]) signal() {
	poke(w.wanted)
	poke(w.gone)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stop ends the worker and waits for the dialing goroutines.
func (w *worker[C]) stop() {
	w.cancel()
	<-w.done
}

// limits are what the configuration says to a worker, and can change.
type limits struct {
	parallel int           // most dials at once
	failures int           // in a row, that open the circuit
	maxIdle  time.Duration // for connections beyond the warm ones
	rampTime time.Duration // for a recovered backend to get its full share back
	// forgetAfter is for how long connections of a variant are kept warm that no client comes for; 0 for ever.
	forgetAfter time.Duration
}

// limits returns what the options say to the worker.
func (o *Options) limits() limits {
	return limits{
		parallel: o.DialParallel, failures: o.CircuitFailures, maxIdle: o.MaxIdle, rampTime: o.SlowStart, forgetAfter: o.VariantMaxIdle,
	}
}

// configure changes the limits.
func (w *worker[C]) configure(l limits) {
	w.mu.Lock()
	w.configured = &l
	w.mu.Unlock()
	poke(w.wanted)
}

func (w *worker[C]) run() {
	defer close(w.done)
	for !w.work() {
		select {
		case <-time.After(time.Second): // what has made it panic may do so again
		case <-w.ctx.Done():
		}
	}
}

// work is what the worker does until it is stopped. It returns false when it has panicked.
func (w *worker[C]) work() (ended bool) {
	defer w.guard.Recover("backend's worker", nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.ctx.Err() == nil { // select would not prefer the end to a signal
		w.review()
		w.shrink()
		timer.Reset(w.fill())
		select {
		case <-w.wanted:
		case <-timer.C:
		case r := <-w.results:
			w.settle(r)
		case <-w.ctx.Done():
		}
	}
	for w.dialing > 0 {
		w.settle(<-w.results)
	}
	return true
}

// review looks at what became of connections and sessions.
func (w *worker[C]) review() {
	w.mu.Lock()
	if c := w.configured; c != nil {
		w.configured = nil
		w.allowed = min(w.allowed, c.parallel)
		w.limits, w.circuit.after = *c, c.failures
	}
	n := w.news
	w.news.spoiled, w.news.served, w.news.ended, w.news.full, w.news.renewed = 0, false, false, 0, false
	if n.broken >= w.circuit.after {
		w.news.broken = 0
	}
	w.mu.Unlock()
	if n.renewed {
		w.startOver()
	}
	now := time.Now()
	suspected := w.suspected()
	switch {
	case n.spoiled > 0:
		w.lost += n.spoiled
		w.lostAt, w.onTrial = now, time.Time{}
		if w.suspected() {
			w.fail("connection lost before it served a session: " + n.cause)
		}
	case n.served, w.lost > 0 && !w.onTrial.IsZero() && now.Sub(w.onTrial) >= probation:
		w.lost = 0
		if suspected {
			w.recover()
		}
	}
	if n.ended {
		w.circuit.served()
	}
	if n.broken >= w.circuit.after && w.circuit.state == Closed {
		w.circuit.trip(now)
		w.report.setCircuit(Open, fmt.Sprintf("%d sessions in a row were broken: %s", n.broken, n.breaking))
	}
	w.compare()
	w.reconsider()
	w.setRamp()
	if n.full > 0 {
		s := w.pool.Stats()
		w.refused(s.Leased+s.Resetting-n.full, s)
	}
	w.raise()
}

// startOver gives up the dials that are under way, and forgets what has failed: the backend is dialed in another way from now on.
func (w *worker[C]) startOver() {
	w.stopDials()
	w.dials, w.stopDials = context.WithCancel(w.ctx)
	w.renewal++
	w.circuit.renew()
	w.lost, w.onTrial, w.aheadAt = 0, time.Time{}, time.Time{}
	w.pool.SetPredial(true)
}

// suspected tells whether the server accepts connections only to close them.
func (w *worker[C]) suspected() bool { return w.lost >= strikes }

// recover notes that connections can be established.
func (w *worker[C]) recover() {
	if w.circuit.established() {
		w.report.setCircuit(Closed, "")
		w.reconsider()
	}
	w.report.setReachable(true, "")
}

// compare leaves the backend out, or takes it back in, by how its sessions go in comparison with its peers'.
func (w *worker[C]) compare() {
	if w.conduct.peers == nil {
		return
	}
	out, why := w.conduct.look(w.now(), w.circuit.after)
	if out != w.out {
		w.out = out
		w.report.setOutlier(out, why)
	}
}

// reconsider notes whether the backend is in service, by all that is known of it.
func (w *worker[C]) reconsider() {
	w.setUsable(w.circuit.state == Closed && !w.out && !w.probeIsDown())
}

func (w *worker[C]) probeIsDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news.probeDown
}

// fail notes that they cannot.
func (w *worker[C]) fail(reason string) {
	w.allowed = 1 // to see that it is back, one attempt at a time is enough
	w.circuit.failed(time.Now())
	w.report.setReachable(false, reason)
	if w.circuit.state == Open {
		w.report.setCircuit(Open, reason)
		w.reconsider()
	}
}

// setUsable notes whether the backend is in service. One that comes back gets its share little by little.
func (w *worker[C]) setUsable(usable bool) {
	if w.usable == usable {
		return
	}
	w.usable = usable
	if usable {
		w.rampBegan = time.Now()
		w.setRamp()
	}
	w.pool.SetUsable(usable)
}

func (w *worker[C]) setDialable(dialable bool) {
	if w.dialable != dialable {
		w.dialable = dialable
		w.pool.SetDialable(dialable)
	}
}

// setRamp gives a recovered backend more of its share, step by step.
func (w *worker[C]) setRamp() {
	step := rampSteps
	if !w.rampBegan.IsZero() && w.rampTime > 0 {
		step = 1 + int(time.Since(w.rampBegan)*(rampSteps-1)/w.rampTime)
	}
	if step >= rampSteps {
		step, w.rampBegan = rampSteps, time.Time{}
	}
	if step != w.ramp {
		w.ramp = step
		w.pool.SetRamp(float64(step) / rampSteps)
	}
}

// shrink retires idle connections that should not be there, and those to be replaced, as long as they can be.
func (w *worker[C]) shrink() {
	for w.circuit.state == Closed && !w.suspected() {
		conn, ok := w.pool.RetireOutdated(w.allowed)
		if !ok {
			break
		}
		w.retire(conn)
	}
	if w.forgetAfter > 0 {
		w.pool.Forget(w.now() - pool.Instant(w.forgetAfter))
	}
	idleSince := w.now() - pool.Instant(w.maxIdle) + 1 // idle for exactly so long is long enough
	for {
		conn, ok := w.pool.RetireSurplus(idleSince)
		if !ok {
			return
		}
		w.retire(conn)
	}
}
