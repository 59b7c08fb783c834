package backend

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

const (
	tick         = 5 * time.Second        // between two looks at the pool without a signal, plus jitter
	firstBackoff = 250 * time.Millisecond // upper bound of the wait after the first failure; doubles
	lastBackoff  = 15 * time.Second

	// Connections that are lost within this time, before they served a session, count like those that could not be
	// established, from so many in a row on: a server that accepts connections only to close them must not be flooded
	// with more.
	probation = time.Second
	strikes   = 3
)

// Health is what dialing tells about a server.
type Health struct {
	Reachable bool
	Since     time.Time
	Reason    string // why it is not reachable
}

// worker brings a backend's pool to the wanted size. It is one goroutine that alone decides to dial; everybody else
// only signals it, and many signals are one.
type worker struct {
	backend *Backend
	wanted  chan struct{}   // of size one: look at the pool
	gone    chan struct{}   // of size one: the pool has changed, for Close
	results chan dialResult // from the dialing goroutines
	ctx     context.Context // ends with the worker
	cancel  context.CancelFunc
	done    chan struct{}

	// Owned by the worker's goroutine.
	dialing  int
	failures int       // in a row
	retryAt  time.Time // no dialing before
	lost     int       // connections in a row that were lost on probation
	lostAt   time.Time // when the last of them was

	mu      sync.Mutex
	status  Health // guarded by mu
	spoiled int    // guarded by mu: connections lost on probation that the worker has not seen yet
	cause   string // guarded by mu: why the last of them was lost
	passed  bool   // guarded by mu: a connection has come to serve a session
}

// dialResult is what became of a reserved slot.
type dialResult struct{ err error }

func (w *worker) init(b *Backend) {
	w.backend = b
	w.wanted = make(chan struct{}, 1)
	w.gone = make(chan struct{}, 1)
	w.results = make(chan dialResult)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.done = make(chan struct{})
	w.status = Health{Since: time.Now(), Reason: "not dialed yet"}
}

// signal asks the worker to look at the pool. It never blocks.
func (w *worker) signal() {
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
func (w *worker) stop() {
	w.cancel()
	<-w.done
}

func (w *worker) run() {
	defer close(w.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.ctx.Err() == nil { // select would not prefer the end to a signal
		w.review()
		timer.Reset(w.dial())
		select {
		case <-w.wanted:
		case <-timer.C:
		case r := <-w.results:
			w.settle(r)
		case <-w.ctx.Done():
		}
	}
	for ; w.dialing > 0; w.dialing-- {
		<-w.results
	}
}

// lostOnProbation notes that a connection was lost soon after it was established, and before it served a session.
func (w *worker) lostOnProbation(reason string) {
	w.mu.Lock()
	w.spoiled++
	w.cause = reason
	w.mu.Unlock()
	w.signal()
}

// served notes that a connection has come to serve a session.
func (w *worker) served() {
	w.mu.Lock()
	w.passed = !w.status.Reachable
	passed := w.passed
	w.mu.Unlock()
	if passed {
		w.signal()
	}
}

// review looks at what became of the connections that were established.
func (w *worker) review() {
	w.mu.Lock()
	spoiled, cause, passed := w.spoiled, w.cause, w.passed
	w.spoiled, w.passed = 0, false
	w.mu.Unlock()
	suspected := w.suspected()
	switch {
	case spoiled > 0:
		w.lost += spoiled
		w.lostAt = time.Now()
		if w.suspected() {
			w.fail("connection lost before it served a session: " + cause)
		}
	case passed, w.lost > 0 && time.Since(w.lostAt) > probation && w.backend.pool.Stats().Idle > 0:
		w.lost = 0
		if suspected {
			w.recover()
		}
	}
}

// suspected tells whether the server accepts connections only to close them.
func (w *worker) suspected() bool { return w.lost >= strikes }

// recover notes that the server can be used.
func (w *worker) recover() {
	w.failures, w.retryAt = 0, time.Time{}
	w.setHealth(true, "")
}

// fail notes that it cannot: the next attempt waits a random part of a time that doubles with each failure in a row.
// Several that fail together count once.
func (w *worker) fail(reason string) {
	if time.Now().After(w.retryAt) {
		w.failures++
		w.pause()
	}
	w.setHealth(false, reason)
}

func (w *worker) pause() {
	w.retryAt = time.Now().Add(rand.N(min(lastBackoff, firstBackoff<<min(w.failures-1, 10))))
}

// dial starts as many dials as the pool wants and the limits allow, and returns when to look again at the latest. While
// the server fails, one attempt at a time is enough to see that it is back.
func (w *worker) dial() time.Duration {
	o := &w.backend.options
	parallel := o.DialParallel
	if w.failures > 0 {
		parallel = 1
	}
	for w.dialing < parallel {
		if wait := time.Until(w.retryAt); wait > 0 {
			return wait
		}
		slot, ok := w.backend.pool.Reserve(o.Warm)
		if !ok {
			break
		}
		w.dialing++
		go w.attempt(slot)
	}
	if w.suspected() {
		return probation
	}
	return tick + rand.N(tick)
}

// attempt dials one connection and brings it to an event loop, in a goroutine of its own.
func (w *worker) attempt(slot *pool.Slot[*Conn]) {
	err := w.establish(slot)
	if err != nil {
		slot.Failed()
	}
	w.results <- dialResult{err}
}

func (w *worker) establish(slot *pool.Slot[*Conn]) error {
	o := &w.backend.options
	ctx, cancel := context.WithTimeout(w.ctx, o.DialTimeout)
	defer cancel()
	established, err := o.Target.Dial(ctx)
	if err != nil {
		return err
	}
	socket, err := loop.Detach(established.Conn)
	if err != nil {
		return err
	}
	l := o.Loops.Pick()
	ok := l.Post(func() { adopt(w.backend, slot, l, socket, established) })
	if !ok {
		socket.Close()
		return loop.ErrStopped
	}
	return nil
}

// settle takes the result of a dial.
func (w *worker) settle(r dialResult) {
	w.dialing--
	switch {
	case w.ctx.Err() != nil:
	case r.err != nil:
		w.fail(r.err.Error())
	case !w.suspected():
		w.recover()
	default: // the last ones were established too, and were lost
		w.pause()
	}
}

// setHealth notes whether the server can be reached, and logs when that has changed.
func (w *worker) setHealth(reachable bool, reason string) {
	w.mu.Lock()
	before := w.status
	first := before.Reason == "not dialed yet"
	w.status.Reason = reason
	if first || before.Reachable != reachable {
		w.status.Since = time.Now()
	}
	w.status.Reachable = reachable
	w.mu.Unlock()
	log := w.backend.options.Log
	switch {
	case !first && before.Reachable == reachable:
	case reachable:
		log.Info("backend reachable", "backend", w.backend.URL())
	default:
		log.Warn("backend not reachable, trying again", "backend", w.backend.URL(), "reason", reason)
	}
}

func (w *worker) health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}
