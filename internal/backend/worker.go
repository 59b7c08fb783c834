package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

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
	pool     *pool.Pool[C]
	report   *report
	parallel int           // most dials at once
	maxIdle  time.Duration // for connections beyond the warm ones
	rampTime time.Duration // for a recovered backend to get its full share back
	// forgetAfter is for how long connections of a variant are kept warm that no client comes for; 0 for ever.
	forgetAfter time.Duration
	now         func() pool.Instant
	// establish dials a connection and fills the slot, or returns why it could not. It is called in a goroutine of its own.
	establish func(context.Context, *pool.Slot[C]) error
	// retire closes a connection whose slot is retiring. It must not block.
	retire func(C)

	wanted  chan struct{}  // of size one: look at the pool
	gone    chan struct{}  // of size one: the pool has changed, for Close
	results chan result[C] // from the dialing goroutines
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}

	// Owned by the worker's goroutine.
	circuit   circuit
	ceiling   ceiling
	dialing   int
	allowed   int       // dials at once for now: fewer after a failure
	lost      int       // connections in a row that were lost on probation
	lostAt    time.Time // when the last of them was
	onTrial   time.Time // when another that was dialed since was established; zero for not yet
	rampBegan time.Time // when a recovered backend came back; zero when that is long ago
	ramp      int       // steps of it
	usable    bool      // as the pool knows it
	dialable  bool      // as the pool knows it

	mu   sync.Mutex
	news news // guarded by mu
}

// result is what became of a dial.
type result[C any] struct {
	slot  *pool.Slot[C]
	begun time.Time
	err   error
}

// news is what others have told the worker since its last look.
type news struct {
	spoiled   int    // connections lost on probation
	cause     string // why the last of them was lost
	served    bool   // a connection has come to serve a session
	ended     bool   // a session ended well
	full      int    // sessions that the server refused because it is full
	broken    int    // sessions broken since the last that ended well
	breaking  string // how the last of them was
	probeDown bool   // the last verdict of the probe; not taken away by the look
}

func (w *worker[C]) init() {
	w.wanted = make(chan struct{}, 1)
	w.gone = make(chan struct{}, 1)
	w.results = make(chan result[C])
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.done = make(chan struct{})
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

func (w *worker[C]) run() {
	defer close(w.done)
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
}

// tell gives the worker news.
func (w *worker[C]) tell(f func(*news)) {
	w.mu.Lock()
	f(&w.news)
	w.mu.Unlock()
	poke(w.wanted)
}

// lostOnProbation notes that a connection was lost soon after it was established, and before it served a session.
func (w *worker[C]) lostOnProbation(reason string) {
	w.tell(func(n *news) { n.spoiled, n.cause = n.spoiled+1, reason })
}

// served notes that a connection has come to serve a session.
func (w *worker[C]) served() {
	if w.mu.Lock(); w.news.served {
		w.mu.Unlock()
		return
	}
	w.news.served = true
	w.mu.Unlock()
	if !w.report.get().Reachable {
		poke(w.wanted)
	}
}

// ended notes how a session ended: broken by the backend, if that is said, or well.
func (w *worker[C]) ended(broken string) {
	w.mu.Lock()
	n := &w.news
	before := n.broken
	if broken == "" {
		n.ended, n.broken = true, 0
	} else {
		n.broken, n.breaking = n.broken+1, broken
	}
	w.mu.Unlock()
	if broken != "" {
		w.report.update(func(h *Health) { h.Broken++ })
	}
	if before > 0 || broken != "" {
		poke(w.wanted)
	}
}

// probed notes the verdict of the active probe.
func (w *worker[C]) probed(up bool, reason string) {
	w.report.setProbe(up, reason)
	w.tell(func(n *news) { n.probeDown = !up })
}

// review looks at what became of connections and sessions.
func (w *worker[C]) review() {
	w.mu.Lock()
	n := w.news
	w.news.spoiled, w.news.served, w.news.ended, w.news.full = 0, false, false, 0
	if n.broken >= w.circuit.after {
		w.news.broken = 0
	}
	w.mu.Unlock()
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
	w.setUsable(w.circuit.state == Closed && !n.probeDown)
	w.setRamp()
	if n.full > 0 {
		s := w.pool.Stats()
		w.refused(s.Leased+s.Resetting-n.full, s)
	}
	w.raise()
}

// suspected tells whether the server accepts connections only to close them.
func (w *worker[C]) suspected() bool { return w.lost >= strikes }

// recover notes that connections can be established.
func (w *worker[C]) recover() {
	if w.circuit.established() {
		w.report.setCircuit(Closed, "")
		w.setUsable(!w.probeIsDown())
	}
	w.report.setReachable(true, "")
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
		w.setUsable(false)
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

// shrink retires idle connections that should not be there.
func (w *worker[C]) shrink() {
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

// fill starts as many dials as the pool wants and the limits allow, and returns when to look again at the latest.
func (w *worker[C]) fill() time.Duration {
	next := tick + rand.N(tick)
	if w.suspected() {
		next = probation
	}
	if !w.rampBegan.IsZero() {
		next = min(next, w.rampTime/rampSteps)
	}
	if w.maxIdle > 0 {
		next = min(next, max(w.maxIdle/4, 10*time.Millisecond))
	}
	if w.ceiling.value > 0 {
		next = min(next, max(time.Until(w.ceiling.raiseAt), time.Millisecond))
	}
	wait := w.circuit.wait(time.Now())
	if wait > 0 {
		w.setDialable(false)
		return min(wait, next)
	}
	if w.circuit.state == HalfOpen {
		w.try()
		return next
	}
	for w.dialing < w.allowed {
		slot, ok := w.pool.Reserve()
		if !ok {
			break
		}
		w.dial(slot)
	}
	w.setDialable(w.dialing < w.allowed) // otherwise it is for the other backends to dial for clients that wait
	return next
}

// try dials the connection that shows whether the backend is well. When the pool is full, an idle one makes room.
func (w *worker[C]) try() {
	w.report.setCircuit(HalfOpen, "")
	if w.dialing > 0 {
		return
	}
	if slot, ok := w.pool.ReserveTrial(); ok {
		w.dial(slot)
	} else if s := w.pool.Stats(); s.State == pool.Enabled.String() && s.Retiring == 0 {
		if conn, ok := w.pool.RetireOldest(pool.Suspected); ok {
			w.retire(conn) // the worker is signalled when it is gone
		}
	}
}

func (w *worker[C]) dial(slot *pool.Slot[C]) {
	w.dialing++
	begun := time.Now()
	go func() { w.results <- result[C]{slot, begun, w.establish(w.ctx, slot)} }()
}

// settle takes the result of a dial. The slot of one that failed is given up when that has been noted, and not before:
// another dial would take its place.
func (w *worker[C]) settle(r result[C]) {
	w.dialing--
	ending := w.ctx.Err() != nil
	switch unwanted := (unwantedError{}); {
	case r.err != nil && (ending || errors.As(r.err, &unwanted)): // neither is a failure of the server
		r.slot.Abandoned()
	case errors.Is(r.err, errFull) && w.refusedDial(w.pool.Stats()):
		w.allowed = 1
		r.slot.Failed()
	case r.err != nil:
		w.fail(r.err.Error())
		r.slot.Failed()
	case !ending:
		w.established(r.begun)
	}
}

// established notes that a connection was, which has been dialed since begun.
func (w *worker[C]) established(begun time.Time) {
	now := time.Now()
	if w.lost > 0 && w.onTrial.IsZero() && !begun.Before(w.lostAt) { // an earlier one may be lost already
		w.onTrial = now
	}
	if w.suspected() { // the last ones were established too, and were lost
		w.circuit.hold(now)
		return
	}
	w.recover()
	w.allowed = min(2*w.allowed, w.parallel)
}
