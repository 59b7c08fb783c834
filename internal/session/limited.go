package session

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
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

// instant returns the present as package limits knows it.
func instant() limits.Instant { return limits.Instant(loop.Now()) }

// enter takes the place of a client that has not said who it is: in its address. The error is a [handshake.Refusal].
func (s *Server) enter(service *Service, a *arrival) error {
	a.limitsAt, a.hold = s.options.Scopes.Generation(), new(limits.Hold)
	return s.limitReached(s.options.Scopes.Arrive(instant(), visitor(service, a), a.hold))
}

// enterAuthenticated takes the other places of a client that was authenticated, or need not be: in its key, its tenant, its service and the
// process.
func (s *Server) enterAuthenticated(service *Service, a *arrival) error {
	return s.limitReached(s.options.Scopes.Admit(instant(), visitor(service, a), a.hold))
}

// visitor returns what limits depend on.
func visitor(service *Service, a *arrival) *limits.Visitor {
	v := &limits.Visitor{Service: service.Scopes, Address: a.client.Addr()}
	if who := a.identity; who != nil {
		v.Tenant = who.Tenant
		v.Holder = limits.Holder{Method: who.Method, Tenant: who.Tenant, Name: who.Key}
		if who.Key == "" {
			v.Holder.Name = who.Subject
		}
		if who.Limits != (limits.Limits{}) && who.Method != identity.MethodKeys { // those of keys are in the configuration, and may have changed
			v.Own = &who.Limits
		}
	}
	return v
}

// limitReached returns the answer to a client that is refused because of a limit; nil for none.
func (s *Server) limitReached(r *limits.Refusal) error {
	if r == nil {
		return nil
	}
	cause := limits.Cause{Scope: r.Scope, Limit: r.Limit}
	s.limitLog.note(cause, "")
	who := r.Scope.Kind()
	refusal := &handshake.Refusal{
		Status: http.StatusTooManyRequests, Reason: "too many sessions " + whose[who], Logged: describeCause(cause, "") + " reached", Header: handshake.RetryAfter(retryAfter),
	}
	switch {
	case r.Limit == limits.SessionRate:
		refusal.Reason = "too many new sessions " + whose[who] + ": try again later"
		refusal.Header = handshake.RetryAfter(int(math.Ceil(r.Wait.Seconds())))
	case who == limits.Process || who == limits.Service: // it is not the client who has too many
		refusal.Status = http.StatusServiceUnavailable
	}
	return refusal
}

// whose says whose sessions are too many.
var whose = [limits.Kinds]string{
	limits.Process: "on this proxy", limits.Service: "of this service", limits.Client: "from this address", limits.Key: "with this credential",
	limits.Tenant: "of this tenant",
}

// describeCause returns a limit in words, such as "session-limit 3 of tenant acme". service is the name of the session's service, which
// a cause without a scope belongs to.
func describeCause(c limits.Cause, service string) string {
	about := aboutCause(c, service)
	of := about.kind.String()
	if about.name != "" {
		of += " " + about.name
	}
	if c.Scope == nil {
		return fmt.Sprintf("%v of %s", c.Limit, of)
	}
	return fmt.Sprintf("%v %s of %s", c.Limit, c.Scope.Limits().Text(c.Limit), of)
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

// before puts the limits in front of a handler of the client's connection while a rate applies.
func (l *limited) before(next loop.Handler) loop.Handler {
	if l == nil || !l.hold.Rated() {
		return next
	}
	return l
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
func (s *Session) limitEnds(c limits.Cause) { s.server.limitLog.note(c, s.record.Service.Name) }

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
func (s *Server) LimitsChanged() {
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
	a := arrival{client: s.record.Client, identity: s.record.Identity}
	s.server.options.Scopes.Join(instant(), visitor(s.record.Service, &a), hold)
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
	s.compose()
}
