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

	mu     sync.Mutex
	status Health // guarded by mu
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
	for {
		timer.Reset(w.dial())
		select {
		case <-w.wanted:
		case <-timer.C:
		case r := <-w.results:
			w.settle(r)
		case <-w.ctx.Done():
			for ; w.dialing > 0; w.dialing-- {
				<-w.results
			}
			return
		}
	}
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

// settle takes the result of a dial: after a failure, the next attempt waits a random part of a time that doubles with
// each failure in a row.
func (w *worker) settle(r dialResult) {
	w.dialing--
	if r.err == nil {
		w.failures, w.retryAt = 0, time.Time{}
		w.setHealth(true, "")
		return
	}
	if w.ctx.Err() != nil {
		return
	}
	bound := min(lastBackoff, firstBackoff<<min(w.failures, 10))
	if time.Now().After(w.retryAt) { // several dials that fail together count once
		w.failures++
		w.retryAt = time.Now().Add(rand.N(bound))
	}
	w.setHealth(false, r.err.Error())
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
