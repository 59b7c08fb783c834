package session

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// This file is the limits on a session's time while frames pass, and what its timers do.

// idleLooks is how often within the idle limit a session is looked at.
const idleLooks = 4

// progress is what the session's timer has seen while frames pass. It is owned by the session's loop.
type progress struct {
	count      uint64 // what had passed at the last look: data frames and bytes both ways, or the client's bytes
	quietLooks int    // looks in a row at which nothing had passed since the one before
	pending    int    // bytes for the server that its socket had not taken at the last look
	// leaving: the client has ended its stream, and what it sent before waits for the server.
	leaving bool
}

// look is what the timer does while frames pass.
func (s *Session) look() {
	if s.progress.leaving {
		s.lookAtLeaving()
	} else {
		s.watchIdle()
	}
}

// watchIdle ends the session if nothing has passed for as long as the service allows. It looks now and then whether anything has
// passed since the last look, so that nothing has to be noted when a frame passes.
func (s *Session) watchIdle() {
	s.progress.leaving = false
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
	s.timer.Set(s.client.Loop(), limit/idleLooks, s.expired)
}

// watchLeaving looks after the CloseTimeout whether the server still takes what the client had sent before it ended its stream. The
// server may take all of it, but the session need not hold its lease for ever.
func (s *Session) watchLeaving() {
	s.progress = progress{count: s.scanner.Bytes, pending: s.leg.up.to.Pending(), leaving: true}
	s.timer.Set(s.client.Loop(), s.service.CloseTimeout, s.expired)
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
		s.deadline.Set(s.client.Loop(), limit, s.outlasted)
	}
}

func (s *Session) outlasted() { s.end(frame.PolicyViolation, "session limit reached") }

// expired is called when the session's timer expires.
func (s *Session) expired() {
	if s.life.state == relaying {
		s.look()
		return
	}
	s.handle(event{kind: expired})
}
