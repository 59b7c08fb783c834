package backend

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// result is what became of a dial.
type result[C any] struct {
	slot    *pool.Slot[C]
	attempt health.Attempt
	err     error
}

// dialWanted starts as many dials as the pool wants and the server's health and this machine allow. It returns when to review again
// at the latest.
func (w *worker[C]) dialWanted(p *health.Permit, now pool.Instant) time.Duration {
	switch {
	case p.BackingOff:
		w.setDialable(false)
		return p.Within
	case p.Short:
		return p.Within
	case p.Trial:
		if p.Dials > 0 && (!w.mayDial() || !w.dialTrial(now)) {
			return health.ShortPause
		}
		return p.Within
	}
	next := p.Within
	left := p.Dials
	if left > 0 && !w.mayDial() {
		left, next = 0, min(next, health.ShortPause)
	}
	for ; left > 0; left-- {
		s := w.pool.Stats()
		done, ok := w.descriptors.Dial(s.Used())
		if !ok {
			if lacksWarm(&s) || w.pool.Demanded() {
				w.descriptors.Denied(s.Used())
			}
			next = min(next, health.ShortPause)
			break
		}
		slot, ok := w.pool.Reserve()
		if !ok {
			done()
			break
		}
		w.dial(slot, done, now)
	}
	w.setDialable(left > 0)
	return next
}

// mayDial reports whether the server may be dialed at all.
func (w *worker[C]) mayDial() bool { return w.permission == nil || w.permission.MayDial() }

// lacksWarm reports whether connections would be dialed if the machine allowed it.
func lacksWarm(s *pool.Stats) bool {
	return s.State == pool.Enabled.String() && s.Idle+s.Dialing < s.Warm && s.Used() < s.Limit
}

// dialTrial dials the connection that shows whether the server works again. When the pool is full, an idle one makes room. It
// returns false when the machine does not allow it for now.
func (w *worker[C]) dialTrial(now pool.Instant) bool {
	s := w.pool.Stats()
	done, ok := w.descriptors.Dial(s.Used())
	if !ok {
		return false
	}
	if slot, ok := w.pool.ReserveTrial(); ok {
		w.dial(slot, done, now)
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
func (w *worker[C]) dial(slot *pool.Slot[C], done func(), now pool.Instant) {
	w.dialing++
	var attempt health.Attempt
	w.locked(func(t *health.Tracker) { attempt = t.Dial(now) })
	ctx := w.dials
	go func() {
		err := panics.Err // if it panics
		defer func() {
			done()
			w.results <- result[C]{slot, attempt, err}
		}()
		defer w.guard.Recover("dialing", nil)
		err = w.establish(ctx, slot)
	}()
}

// dialed tells the server's health what became of a dial. The slot of one that failed is given up after that, and not before:
// another dial would take its place.
func (w *worker[C]) dialed(r result[C]) {
	w.dialing--
	now := w.now()
	ended := w.outcome(r)
	outcome, forClientOnly := ended.Outcome, false
	if outcome != health.Dropped && outcome != health.LocalShortage {
		w.report.isFull.Store(outcome == health.Full)
	}
	w.locked(func(t *health.Tracker) { forClientOnly = t.DialEnded(r.attempt, ended, now) })
	w.publish(now)
	if ended.Failing {
		w.peer.sessionBegan(now)
		w.peer.sessionFailed(now)
	}
	switch {
	case outcome == health.Established:
	case outcome == health.ClientRefused, outcome == health.AnonymousRefused && r.slot.Demanded(): // others that wait would be refused, too
		r.slot.Refused(r.err)
	case forClientOnly: // so that others get the place
		r.slot.Refused(fmt.Errorf("%w: %w", ErrForClientOnly, r.err))
	case errors.Is(r.err, panics.Err):
		r.slot.GiveUp()
	case outcome == health.Failed, outcome == health.Full:
		r.slot.Failed()
	case r.err != nil:
		r.slot.Abandoned()
	}
}

// outcome returns what the result of a dial says about the server.
func (w *worker[C]) outcome(r result[C]) health.DialResult {
	ended := health.DialResult{Outcome: health.Failed, Private: isPrivate(r.slot.Variant())}
	if r.err != nil {
		ended.Reason = r.err.Error()
	}
	if own := (ownError{}); errors.As(r.err, &own) {
		ended.Client = own.client
	}
	outdated := false
	w.locked(func(t *health.Tracker) { outdated = t.Outdated(r.attempt) })
	unwanted, refused, anonymous := (unwantedError{}), (clientRefusedError{}), (anonymousRefusedError{})
	switch {
	case outdated, w.ctx.Err() != nil, errors.As(r.err, &unwanted):
		ended.Outcome = health.Dropped
	case r.err == nil:
		ended.Outcome = health.Established
	case errors.As(r.err, &refused):
		ended.Outcome, ended.Failing = health.ClientRefused, refused.failing
	case errors.As(r.err, &anonymous):
		ended.Outcome = health.AnonymousRefused
	case errors.Is(r.err, panics.Err), w.descriptors.Failed(machine.Dialing, r.err):
		ended.Outcome = health.LocalShortage
	case errors.Is(r.err, errFull):
		ended.Outcome, ended.Pool = health.Full, connectionsOf(w.pool.Stats())
	case ended.Private && isUnanswered(r.err):
		ended.Unanswered, ended.Failing = true, true
	}
	return ended
}

// connectionsOf returns the numbers that matter to the server's health.
func connectionsOf(s pool.Stats) health.Connections {
	return health.Connections{
		Cap: s.Cap, InUse: s.Leased + s.Resetting, Held: s.Idle + s.Leased + s.Resetting + s.Retiring, All: s.Used(), Needed: s.Moving > 0,
	}
}
