package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file limits how long a session may last or be idle, and how many control frames its client may send, and handles its timers.

// maxDiscarded is how much is read of a client whose part of the session is over, to see its close frame or the end of its stream: each read
// counts one, and one more for each KiB. It lets a client end the large frame that it was sending.
const maxDiscarded = 60_000

// discard counts bytes that the client sent after its part of the session was over. A client that sends without end is no longer read:
// the state that the session is in is bounded in time.
func (s *Session) discard(n int) {
	p := &s.progress
	if p.discarded <= maxDiscarded {
		p.discarded += uint16(1 + n>>10) // at most 65, since a read takes no more
	}
	if p.discarded > maxDiscarded {
		s.readNoMore()
	}
}

// readNoMore leaves what the client still sends unread. The session must be in a state that is bounded in time.
func (s *Session) readNoMore() {
	if !s.client.Closed() {
		s.client.Pause()
	}
}

// idleChecks is how often a session is checked within its idle limit.
const idleChecks = 4

// progress is what the session's timer has seen while frames pass, and what is read after that. It is owned by the session's loop.
type progress struct {
	count       uint64 // what had passed at the last check: data frames and bytes both ways, the client's bytes, or audio
	pending     int32  // bytes for the backend that its socket had not taken at the last check
	discarded   uint16 // what was read after the client's part was over, see maxDiscarded
	quietChecks int8   // checks in a row at which nothing had passed since the one before
}

// look returns at how many checks in a row, this one included, count was the same as at the one before. waits tells that the client may have more to
// say than is read.
func (p *progress) look(count uint64, waits bool) int8 {
	switch {
	case count != p.count:
		p.count, p.quietChecks = count, 0
	case waits:
		p.quietChecks = 0
	default:
		p.quietChecks++
	}
	return p.quietChecks
}

// What a session's timers are set for.
const (
	timeState      loop.Purpose = iota // the CloseTimeout of the present state
	idleCheck                          // the next check for idleness
	leavingCheck                       // the next check whether the backend takes what a client had sent before it left
	timeDuration                       // the limit on the session's duration
	timeCredential                     // the expiry of the client's credential
	timeReplay                         // a replay continues
	timeMove                           // a pending move is carried out by replay
	timeStall                          // the next look whether the server works
	timeLifetime                       // the session is to leave a server that will end it
	stallCheck                         // the next look whether the server takes what the client sends
	audioCheck                         // the next check for audio
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
		_, by := s.limited.maxDuration(s.record.Service)
		s.limitEnds(by)
		s.End(meter.Limit, frame.PolicyViolation, "session limit reached")
	case timeCredential:
		s.checkCredential()
	case timeReplay:
		s.failover.pump()
	case timeStall:
		s.failover.lookForStall()
	case timeMove:
		s.ConsiderMove()
	case timeLifetime:
		s.failover.leaveInTime()
	case stallCheck:
		s.lookAtStall()
	case audioCheck:
		s.checkAudio()
	}
}

// Expired implements [loop.TimerHandler] for the timers of the backend's connection.
func (h *backendSide) Expired(c *loop.Conn, t *loop.Timer) {
	if q := h.account.silence; q != nil && t == &q.keepalive {
		(*Session)(h).keepServerAlive()
		return
	}
	h.leg.conn.Expired(c, t)
}

// checkIdle ends the session if nothing has passed for as long as the service allows. A few checks compare counters, so that
// a frame that passes has nothing to record.
func (s *Session) checkIdle() {
	limit, by := s.limited.idleTimeout(s.record.Service)
	if limit <= 0 {
		return
	}
	// Bytes are counted too, for a large frame that takes its time. While the client is away, Reconnect is the limit.
	from, to, line := &s.scanner, &s.leg.conn.Scanner, resume.Of(s.client)
	gathered, _ := line.UnderWay()
	if !line.Parked() && s.progress.look(from.Frames+from.Bytes+to.Frames+to.Bytes+uint64(gathered), s.client.Throttled()) > idleChecks {
		s.limitEnds(by)
		s.End(meter.Limit, frame.PolicyViolation, "idle limit reached")
		return
	}
	s.timer.Set(s.client, limit/idleChecks, idleCheck)
}

// awaitLeaving checks after each CloseTimeout whether the backend still takes what the client had sent before it closed or ended its stream. The
// backend may take all of it, but a session whose backend takes nothing does not keep its lease for ever.
func (s *Session) awaitLeaving() { s.awaitLeavingFor(s.record.Service.CloseTimeout) }

// awaitLeavingFor is awaitLeaving with another time until the first check.
func (s *Session) awaitLeavingFor(first time.Duration) {
	s.progress = progress{count: s.takenByBackend(), pending: int32(s.leg.up.to.Pending())}
	s.timer.Set(s.client, first, leavingCheck)
}

// takenByBackend is a count that goes up while the backend takes what the client sends, or what was kept of that.
func (s *Session) takenByBackend() uint64 {
	if s.failover != nil {
		return s.scanner.Bytes + s.failover.sent
	}
	return s.scanner.Bytes
}

// isLeaving reports whether that is checked: the client has closed or ended its stream, and does not come back.
func (s *Session) isLeaving() bool {
	return s.timer.Active() && s.timer.Purpose() == leavingCheck && !resume.Of(s.client).MayReturn()
}

func (s *Session) checkLeaving() {
	switch closing := s.failover != nil && s.failover.closing != nil; {
	case !closing && !s.client.Paused():
		s.checkIdle()
	case int32(s.leg.up.to.Pending()) < s.progress.pending, s.takenByBackend() > s.progress.count:
		s.awaitLeaving()
	case !closing && resume.Of(s.client).DropRest(): // it may come back
		s.checkIdle()
	default:
		s.endLeaving()
	}
}

// endLeaving ends the session of a client that is leaving. The backend, which takes nothing of what it had sent before, will not answer either.
func (s *Session) endLeaving() {
	if f := s.failover; f != nil && f.closing != nil {
		payload := f.closing
		f.closing = nil
		s.handleClientCloseWith(payload, false)
	} else if payload, closes := s.keptClose(); closes {
		s.handleClientCloseWith(payload, false)
	} else if s.client.Throttled() {
		s.clientLeft("client left while a limit held back what it had sent")
	} else {
		s.clientLeft("client left while its backend accepted nothing")
	}
}

// limitDuration sets the timer for the session's end: when it has lasted as long as the service allows, or when its client's credential
// must be checked once more.
func (s *Session) limitDuration() {
	left, purpose := time.Duration(0), timeDuration
	if limit, _ := s.limited.maxDuration(s.record.Service); limit > 0 {
		left = max(limit-time.Since(s.record.Leased), 1)
	}
	if check := s.credentialLeft(); check > 0 && (left == 0 || check < left) {
		left, purpose = check, timeCredential
	}
	if left > 0 {
		s.deadline.Set(s.client, left, purpose)
	}
}
