package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file takes a session's places in what is limited, and gives them back. throttle.go limits what its client sends.

// limited is what a session is limited by, beside the limits of its service on each session. It is owned by the session's loop.
type limited struct {
	*clientSide // of the session; see Session.moveInto. With it, limited is the handler of the client's connection while a rate applies.

	hold       *limits.Hold
	idle       time.Duration // the strictest limit on idleness; static
	idleBy     limits.Cause  // static
	duration   time.Duration // the strictest limit on the session's duration; static
	durationBy limits.Cause  // static

	throttle throttle
	question *question // for a method that is asked once more about the client; nil for none
}

// newLimited returns what limits a session whose places are in hold.
func newLimited(s *Session, hold *limits.Hold) *limited {
	l := &limited{clientSide: (*clientSide)(s), hold: hold}
	l.idle, l.idleBy = hold.IdleTimeout(s.record.Service.IdleTimeout)
	l.duration, l.durationBy = hold.MaxSession(s.record.Service.MaxDuration)
	l.throttle.paidMessages, l.throttle.paidBytes = s.scanner.Messages, s.scanner.Bytes
	l.startTurn()
	return l
}

// handler returns the handler of the client's connection while nobody taps the session.
func (s *Session) handler() loop.TimerHandler {
	if l := s.limited; l != nil && l.hold.Rated() {
		return l
	}
	return (*clientSide)(s)
}

// idleTimeout returns after how long without a frame the session ends, and who says so; 0 for never.
func (s *Session) idleTimeout() (time.Duration, limits.Cause) {
	if l := s.limited; l != nil {
		return l.idle, l.idleBy
	}
	return s.record.Service.IdleTimeout, limits.Cause{Limit: limits.IdleTimeout}
}

// maxDuration returns how long the session may last, and who says so; 0 for no limit.
func (s *Session) maxDuration() (time.Duration, limits.Cause) {
	if l := s.limited; l != nil {
		return l.duration, l.durationBy
	}
	return s.record.Service.MaxDuration, limits.Cause{Limit: limits.MaxSession}
}

// maxMessage returns the size of the largest message that the client may send, and who says so; 0 for no limit.
func (s *Session) maxMessage() (int64, limits.Cause) {
	var hold *limits.Hold
	if s.limited != nil {
		hold = s.limited.hold
	}
	return hold.MaxMessage(s.record.Service.MaxMessage)
}

// limitEnds notes that a limit ends the session.
func (s *Session) limitEnds(c limits.Cause) { s.server.limitLog.Note(c, s.record.Service.Name) }

// leaveLimits gives the session's places back. Whoever ended it may begin another session at once, even if the rest of its closing
// handshake takes a while.
func (s *Session) leaveLimits() {
	if l := s.limited; l != nil {
		l.stop()
		l.spend()
		l.hold.Release()
	}
}

// LimitsChanged brings running sessions under limits that are new. Rates and numbers of sessions apply at once; the size of messages,
// the duration of sessions and idleness only to sessions that begin later. It does not wait, and may be called from any goroutine.
func (s *Sessions) LimitsChanged() {
	s.pending.Go(func() {
		sessions, _ := s.registry.all()
		s.each(sessions, (*Session).limitsChanged)
	})
}

// limitsChanged takes the session's places in scopes that have got limits since it began, and applies their rates.
func (s *Session) limitsChanged() {
	if s.life.state >= lingering {
		return
	}
	hold := new(limits.Hold)
	if l := s.limited; l != nil {
		l.spend() // before there is more to pay to
		hold = l.hold
	}
	s.server.options.Scopes.Join(route.Now(), s.record.Service.Visitor(s.record.Client.Addr(), s.record.Identity), hold)
	switch {
	case hold.Empty():
		return
	case s.limited == nil:
		s.limited = newLimited(s, hold)
		s.limited.idle, s.limited.duration = s.record.Service.IdleTimeout, s.record.Service.MaxDuration
		s.limited.idleBy, s.limited.durationBy = limits.Cause{Limit: limits.IdleTimeout}, limits.Cause{Limit: limits.MaxSession}
	default:
		s.limited.stop()
		s.limited.startTurn()
	}
	if s.tap == nil {
		s.client.SetHandler(s.handler())
	}
}
