//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/pool"
)

const (
	firstBackoff = 250 * time.Millisecond // upper bound of the wait after the first failure; doubles
	lastBackoff  = 15 * time.Second
)

// worker brings wsbouncer's pool to its size. It is that of package backend without what takes a server out of service: one
// goroutine that alone dials and retires what is too many; everybody else only signals it, and many signals are one.
type worker struct {
	// Static.
	pool      *pool.Pool[*conn]
	establish func(context.Context, *pool.Slot[*conn]) error
	wanted    chan struct{} // of size one: look at the pool
	gone      chan struct{} // of size one: the pool has changed, for Close
	results   chan result   // from the dialing goroutines
	ctx       context.Context
	cancel    context.CancelFunc
	done      chan struct{}

	// Owned by the worker's goroutine.
	dialing  int
	allowed  int // dials at once for now: fewer after a failure
	failures int // to dial, in a row
	retryAt  time.Time
}

// result is what became of a dial.
type result struct {
	slot *pool.Slot[*conn]
	err  error
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
	for w.ctx.Err() == nil {
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

// shrink retires idle connections that are too many. All are kept warm here, so that none has been idle for too long.
func (w *worker) shrink() {
	for {
		c, ok := w.pool.RetireSurplus(0)
		if !ok {
			return
		}
		c.close()
	}
}

// fill starts as many dials as the pool wants and the limits allow, and returns when to look again at the latest.
func (w *worker) fill() time.Duration {
	if wait := time.Until(w.retryAt); wait > 0 {
		return wait
	}
	for w.dialing < w.allowed {
		slot, ok := w.pool.Reserve()
		if !ok {
			break
		}
		w.dialing++
		go func() { w.results <- result{slot, w.establish(w.ctx, slot)} }()
	}
	return tick + rand.N(tick)
}

// settle takes the result of a dial. The slot of one that failed is given up when that has been noted, and not before:
// another dial would take its place.
func (w *worker) settle(r result) {
	w.dialing--
	if r.err == nil {
		w.failures, w.retryAt = 0, time.Time{}
		w.allowed = min(2*w.allowed, parallel)
		return
	}
	w.allowed = 1 // to see that the server is back, one attempt at a time is enough
	if now := time.Now(); !now.Before(w.retryAt) {
		w.failures++
		w.retryAt = now.Add(rand.N(min(lastBackoff, firstBackoff<<min(w.failures-1, 10))))
	}
	r.slot.Failed()
}
