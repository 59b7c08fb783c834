package session

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/meter"
)

// This file limits how long a session may last or be idle, and handles its timers.

// idleChecks is how often a session is checked within its idle limit.
const idleChecks = 4

// progress is what the session's timer has seen while frames pass. It is owned by the session's loop.
type progress struct {
	count       uint64 // what had passed at the last check: data frames and bytes both ways, or the client's bytes
	quietChecks int32  // checks in a row at which nothing had passed since the one before
	pending     int32  // bytes for the backend that its socket had not taken at the last check
}

// What a session's timers are set for.
const (
	timeState    loop.Purpose = iota // the CloseTimeout of the present state
	idleCheck                        // the next check for idleness
	leavingCheck                     // the next check whether the backend takes what a client had sent before it left
	timeDuration                     // the limit on the session's duration
	nextTurn                         // the client may send again, see throttle
)

// Expired implements [loop.TimerHandler].
func (h *clientSide) Expired(_ *loop.Conn, t *loop.Timer) {
	s := (*Session)(h)
	switch t.Purpose() {
	case timeState:
		s.handle(event{kind: expired})
	case idleCheck:
		s.checkIdle()
	case leavingCheck:
		s.checkLeaving()
	case timeDuration:
		_, by := s.maxDuration()
		s.limitEnds(by)
		s.end(meter.Limit, frame.PolicyViolation, "session limit reached")
	case nextTurn:
		s.client.Unthrottle()
	}
}

// Expired implements [loop.TimerHandler] for the timers of the backend's connection.
func (h *backendSide) Expired(c *loop.Conn, t *loop.Timer) { h.leg.conn.Expired(c, t) }

// checkIdle ends the session if nothing has passed for as long as the service allows. A few checks compare counters, so that
// a frame that passes has nothing to record.
func (s *Session) checkIdle() {
	limit, by := s.idleTimeout()
	if limit <= 0 {
		return
	}
	// Bytes are counted too, for a large frame that takes its time.
	from, to := &s.scanner, &s.leg.conn.Scanner
	if count := from.Frames + from.Bytes + to.Frames + to.Bytes; count != s.progress.count {
		s.progress.count, s.progress.quietChecks = count, 0
	} else if s.client.Throttled() { // the client may have more to say than we read
		s.progress.quietChecks = 0
	} else if s.progress.quietChecks++; s.progress.quietChecks > idleChecks {
		s.limitEnds(by)
		s.end(meter.Limit, frame.PolicyViolation, "idle limit reached")
		return
	}
	s.timer.Set(s.client, limit/idleChecks, idleCheck)
}

// awaitLeaving checks after each CloseTimeout whether the backend still takes what the client had sent before it ended its stream. The
// backend may take all of it, but a session whose backend takes nothing does not keep its lease for ever.
func (s *Session) awaitLeaving() {
	s.progress = progress{count: s.scanner.Bytes, pending: int32(s.leg.up.to.Pending())}
	s.timer.Set(s.client, s.record.Service.CloseTimeout, leavingCheck)
}

func (s *Session) checkLeaving() {
	switch {
	case !s.client.Paused():
		s.checkIdle()
	case int32(s.leg.up.to.Pending()) < s.progress.pending, s.scanner.Bytes > s.progress.count:
		s.awaitLeaving()
	case s.client.Throttled():
		s.clientLeft("client left while a limit held back what it had sent")
	default:
		s.clientLeft("client left while its backend accepted nothing")
	}
}

// limitDuration ends the session when it has lasted as long as the service allows.
func (s *Session) limitDuration() {
	if limit, _ := s.maxDuration(); limit > 0 {
		s.deadline.Set(s.client, limit, timeDuration)
	}
}
