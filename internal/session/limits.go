package session

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// This file is the limits on a session's time while frames pass, and what its timers do.

// idleLooks is how often within the idle limit a session is looked at.
const idleLooks = 4

// progress is what the session's timer has seen while frames pass. It is owned by the session's loop.
type progress struct {
	count      uint64 // what had passed at the last look: data frames and bytes both ways, or the client's bytes
	quietLooks int    // looks in a row at which nothing had passed since the one before
	pending    int    // bytes for the backend that its socket had not taken at the last look
}

// What a session's timers are set for.
const (
	timeState    loop.Purpose = iota // the CloseTimeout of the present state
	lookIdle                         // the next look for idleness
	lookLeaving                      // the next look at what a client that has ended its stream had sent before
	timeDuration                     // the limit on the session's duration
)

// Expired implements [loop.TimerHandler].
func (h *clientSide) Expired(_ *loop.Conn, t *loop.Timer) {
	s := (*Session)(h)
	switch t.Purpose() {
	case timeState:
		s.handle(event{kind: expired})
	case lookIdle:
		s.watchIdle()
	case lookLeaving:
		s.lookAtLeaving()
	case timeDuration:
		s.end(frame.PolicyViolation, "session limit reached")
	}
}

// Expired implements [loop.TimerHandler] for the timers of the backend's connection.
func (h *backendSide) Expired(c *loop.Conn, t *loop.Timer) { h.leg.conn.Expired(c, t) }

// watchIdle ends the session if nothing has passed for as long as the service allows. It looks now and then whether anything has
// passed since the last look, so that nothing has to be noted when a frame passes.
func (s *Session) watchIdle() {
	limit := s.service.IdleTimeout
	if limit <= 0 {
		return
	}
	// Bytes are counted too, for a large frame that takes its time.
	from, to := &s.scanner, &s.leg.conn.Scanner
	if count := from.Frames + from.Bytes + to.Frames + to.Bytes; count != s.progress.count {
		s.progress.count, s.progress.quietLooks = count, 0
	} else if s.progress.quietLooks++; s.progress.quietLooks > idleLooks {
		s.end(frame.PolicyViolation, "idle limit reached")
		return
	}
	s.timer.Set(s.client, limit/idleLooks, lookIdle)
}

// watchLeaving looks after the CloseTimeout whether the backend still takes what the client had sent before it ended its stream. The
// backend may take all of it, but the session need not hold its lease for ever.
func (s *Session) watchLeaving() {
	s.progress = progress{count: s.scanner.Bytes, pending: s.leg.up.to.Pending()}
	s.timer.Set(s.client, s.service.CloseTimeout, lookLeaving)
}

func (s *Session) lookAtLeaving() {
	switch {
	case !s.client.Paused():
		s.watchIdle()
	case s.leg.up.to.Pending() < s.progress.pending, s.scanner.Bytes > s.progress.count:
		s.watchLeaving()
	default:
		s.clientLeft("client left, and its backend took nothing more")
	}
}

// limitDuration ends the session when it has lasted as long as the service allows.
func (s *Session) limitDuration() {
	if limit := s.service.MaxDuration; limit > 0 {
		s.deadline.Set(s.client, limit, timeDuration)
	}
}
