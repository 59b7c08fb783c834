package relay

import (
	"cmp"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/throttle"
)

// limited is what a session is limited by, beside the limits of its service on each session. It is owned by the session's loop. Nil stands for
// nothing.
type limited struct {
	hold       *limits.Hold
	rate       throttle.Filter
	idle       time.Duration // the strictest limit on idleness; static
	idleBy     limits.Cause  // static
	duration   time.Duration // the strictest limit on the session's duration; static
	durationBy limits.Cause  // static

	question *question // for a method that is asked once more about the client; nil for none
}

// newLimited returns what limits a session whose places are in hold. bounds has those that were taken before the session began, whose limits on
// its duration and idleness apply.
func newLimited(s *Session, hold, bounds *limits.Hold) *limited {
	l := &limited{hold: hold}
	l.idle, l.idleBy = bounds.IdleTimeout(s.record.Service.IdleTimeout)
	l.duration, l.durationBy = bounds.MaxSession(s.record.Service.MaxDuration)
	l.rate.Init((*ratedClient)(s), hold, &s.scanner, s.record.Service.CloseTimeout)
	return l
}

// throttle returns what limits the client's rate; nil for nothing.
func (l *limited) throttle() *throttle.Filter {
	if l == nil {
		return nil
	}
	return &l.rate
}

// places returns the session's places; nil for none.
func (l *limited) places() *limits.Hold {
	if l == nil {
		return nil
	}
	return l.hold
}

// asksAgain returns what the session's method of authentication is asked with once more; nil for nothing.
func (l *limited) asksAgain() *question {
	if l == nil {
		return nil
	}
	return l.question
}

// idleTimeout returns after how long without a frame a session of the service ends, and who says so; 0 for never.
func (l *limited) idleTimeout(service *route.Service) (time.Duration, limits.Cause) {
	if l == nil {
		return l.places().IdleTimeout(service.IdleTimeout)
	}
	return l.idle, l.idleBy
}

// maxDuration returns how long a session of the service may last, and who says so; 0 for no limit.
func (l *limited) maxDuration(service *route.Service) (time.Duration, limits.Cause) {
	if l == nil {
		return l.places().MaxSession(service.MaxDuration)
	}
	return l.duration, l.durationBy
}

// maxMessage returns the size of the largest message that the client may send, and who says so; 0 for no limit.
func (s *Session) maxMessage() (int64, limits.Cause) {
	return s.limited.places().MaxMessage(s.record.Service.MaxMessage)
}

// ratedClient is a session as the limit on its client's rate knows it.
type ratedClient Session

// Relaying implements [throttle.Session].
func (h *ratedClient) Relaying() bool { return h.life.state == relaying }

// HeldBack implements [throttle.Session].
func (h *ratedClient) HeldBack(by limits.Cause) {
	h.sessions.throttled.Add(1)
	h.sessions.shared.LimitLog.Note(by, h.record.Service.Name)
}

// Released implements [throttle.Session].
func (h *ratedClient) Released() { h.sessions.throttled.Add(-1) }

// limitEnds notes that a limit ends the session.
func (s *Session) limitEnds(c limits.Cause) {
	s.sessions.shared.LimitLog.Note(c, s.record.Service.Name)
}

// leaveLimits gives the session's places back. The client that ended it may begin another session immediately, even if the rest of its closing
// handshake takes a while.
func (s *Session) leaveLimits() {
	s.limited.throttle().Stop(s.client)
	s.limited.throttle().Spend()
	s.limited.places().Release()
}

// LimitsChanged brings running sessions under limits that are new. Rates and numbers of sessions apply immediately; the size of messages,
// the duration of sessions and idleness only to sessions that begin later. It does not wait, and may be called from any goroutine.
func (s *Sessions) LimitsChanged() {
	s.pending.Go(func() {
		sessions, _ := s.registry.all()
		s.Each(sessions, (*Session).limitsChanged)
	})
}

// limitsChanged takes the session's places in scopes that have got limits since it began, and applies their rates.
func (s *Session) limitsChanged() {
	if s.life.state >= lingering {
		return
	}
	s.limited.throttle().Spend() // before there is more to pay to
	hold := cmp.Or(s.limited.places(), new(limits.Hold))
	s.sessions.shared.Scopes.Join(route.Now(), s.record.Service.Visitor(s.record.Client.Addr(), s.record.Identity), hold)
	switch {
	case hold.Empty():
		return
	case s.limited == nil:
		s.limited = newLimited(s, hold, nil)
	default:
		s.limited.rate.Restart(s.client)
	}
	s.compose()
}
