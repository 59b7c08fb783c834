package backend

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/machine"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// result is what became of a dial.
type result[C any] struct {
	slot    *pool.Slot[C]
	renewal int // the worker's when it began
	begun   time.Time
	err     error
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
	if w.out {
		next = min(next, outlierLook)
	}
	if w.ceiling.value > 0 {
		next = min(next, max(time.Until(w.ceiling.raiseAt), time.Millisecond))
	}
	wait := w.circuit.wait(time.Now())
	if wait > 0 {
		w.setDialable(false)
		return min(wait, next)
	}
	if wait := time.Until(w.shortTill); wait > 0 {
		return min(wait, next)
	}
	if w.circuit.state == HalfOpen {
		if !w.try() {
			next = min(next, shortPause)
		}
		return next
	}
	if wait := w.dialAhead(); wait > 0 {
		next = min(next, wait)
	}
	for w.dialing < w.allowed {
		s := w.pool.Stats()
		done, ok := w.descriptors.Dial(s.Used())
		if !ok {
			if lacks(&s) || w.pool.Demanded() {
				w.descriptors.Denied(s.Used())
			}
			next = min(next, shortPause)
			break
		}
		slot, ok := w.pool.Reserve()
		if !ok {
			done()
			break
		}
		w.dial(slot, done)
	}
	w.setDialable(w.dialing < w.allowed) // otherwise it is for the other backends to dial for clients that wait
	return next
}

// shortPause is the time until another attempt when something was short on this machine.
const shortPause = time.Second

// lacks tells whether connections would be dialed if the machine allowed it.
func lacks(s *pool.Stats) bool {
	return s.State == pool.Enabled.String() && s.Idle+s.Dialing < s.Warm && s.Used() < s.Ceiling
}

// try dials the connection that shows whether the backend is well. When the pool is full, an idle one makes room. It returns false
// when the machine does not allow it for now.
func (w *worker[C]) try() bool {
	w.report.setCircuit(HalfOpen, "")
	if w.dialing > 0 {
		return true
	}
	s := w.pool.Stats()
	done, ok := w.descriptors.Dial(s.Used())
	if !ok {
		return false
	}
	if slot, ok := w.pool.ReserveTrial(); ok {
		w.dial(slot, done)
		return true
	}
	done()
	if s.State == pool.Enabled.String() && s.Retiring == 0 {
		if conn, ok := w.pool.RetireOldest(pool.Suspected); ok {
			w.retire(conn) // the worker is signalled when it is gone
		}
	}
	return true
}

// dial dials a connection, and calls done when that is over.
func (w *worker[C]) dial(slot *pool.Slot[C], done func()) {
	w.dialing++
	renewal, begun, ctx := w.renewal, time.Now(), w.dials
	go func() {
		err := mistake.Err // if it panics
		defer func() {
			done()
			w.results <- result[C]{slot, renewal, begun, err}
		}()
		defer w.guard.Recover("dialing", nil)
		err = w.establish(ctx, slot)
	}()
}

// settle takes the result of a dial. The slot of one that failed is given up when that has been noted, and not before:
// another dial would take its place.
func (w *worker[C]) settle(r result[C]) {
	w.dialing--
	ending, old := w.ctx.Err() != nil, r.renewal != w.renewal
	switch unwanted, refused, anonymous := (unwantedError{}), (clientRefusedError{}), (anonymousRefusedError{}); {
	case r.err != nil && (ending || old || errors.As(r.err, &unwanted)): // none of these is a failure of the server
		r.slot.Abandoned()
	case errors.As(r.err, &refused):
		if w.circuit.state == HalfOpen { // the trial has shown that the server works
			w.recover()
		}
		if refused.failing {
			now := w.now()
			w.conduct.sessionBegan(now)
			w.conduct.sessionFailed(now)
		}
		r.slot.Refused(refused.error)
	case errors.As(r.err, &anonymous):
		w.refusedAhead(anonymous.Error())
		r.slot.Abandoned()
	case errors.Is(r.err, mistake.Err): // nor does this
		w.shortTill = time.Now().Add(shortPause)
		r.slot.GiveUp()
	case w.descriptors.Failed(machine.Dialing, r.err): // this says nothing about the server
		w.shortTill = time.Now().Add(shortPause)
		r.slot.Abandoned()
	case errors.Is(r.err, errFull) && w.refusedDial(w.pool.Stats()):
		w.allowed = 1
		r.slot.Failed()
	case r.err != nil:
		w.fail(r.err.Error())
		r.slot.Failed()
	case !ending && !old:
		if !w.aheadAt.IsZero() && !isPrivate(r.slot.Variant()) {
			w.aheadAt = time.Time{}
		}
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
