package relay

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// shortestCheck is the shortest time, and longestCheck the longest, after which a session's credential is looked at once more.
const (
	shortestCheck = time.Millisecond
	longestCheck  = 24 * time.Hour
)

// access returns the policy by which the session's client may stay: that of the service as it is now, or as it was before it was removed.
func (s *Session) access() *auth.Policy {
	return s.sessions.routes.Load().Current(s.record.Service).Auth
}

// credentialLeft returns the time after which the session's credential must be checked; 0 for never.
func (s *Session) credentialLeft() time.Duration {
	who, q := s.record.Identity, s.question()
	asks := q != nil && !q.asking
	if who == nil || who.Expires.IsZero() && !asks {
		return 0
	}
	if policy := s.access(); policy == nil || !policy.EndUnauthorized {
		return 0
	}
	left := longestCheck
	if !who.Expires.IsZero() {
		left = min(left, time.Until(who.Expires))
	}
	if asks {
		left = min(left, time.Until(q.at))
	}
	return max(left, shortestCheck)
}

// checkCredential ends the session if its client may not stay and the service says so, or if it waits for a client that cannot come back.
// Otherwise it notes when to check again.
func (s *Session) checkCredential() {
	who, policy := s.record.Identity, s.access()
	if who == nil || !s.record.Ended.IsZero() {
		return
	}
	// No other credential brings a client back to the session of a key.
	lost := who.Method == identity.MethodKeys && resume.Of(s.client).Parked()
	if policy != nil && (policy.EndUnauthorized || lost) {
		expires, reason := policy.Revoked(s.record.Service.Name, who, time.Now())
		if reason != "" {
			s.End(meter.Unauthorized, frame.PolicyViolation, reason)
			return
		}
		if !expires.Equal(who.Expires) {
			changed := *who
			changed.Expires = expires
			s.record.Identity = &changed
		}
		s.askAgain(policy)
	}
	if rulesOf[s.life.state].limited { // also if the service has stopped asking for it: the timer may have been set for this check
		s.limitDuration()
	}
}

// renew has the credential count with which the client has come back, and which may be a newer one of the same client.
func (s *Session) renew(c *record.Client) {
	if s.record.Identity == nil || c.Identity == nil || !s.record.Ended.IsZero() {
		return
	}
	renewed := *s.record.Identity
	renewed.Expires, renewed.Signer = c.Identity.Expires, c.Identity.Signer
	s.record.Identity = &renewed
	if s.question() != nil && c.Question != "" {
		s.limited.question = s.sessions.newQuestion(c.Question)
	}
	s.checkCredential() // it may have been revoked since it was checked
}

// CheckCredentials checks the credentials of all sessions once more, after keys or services have changed. It must not be called on a
// loop, and returns when all sessions whose clients may not stay have been told to end.
func (s *Sessions) CheckCredentials() {
	all, _ := s.registry.all()
	s.Each(all, (*Session).checkCredential)
}

// This file asks a session's method of authentication once more while the session lasts, if that decides by asking another server: what was right at
// the beginning may have been taken back, and the proxy is not notified.

// askAgainAfter is how long after an answer the next question is asked, or up to a quarter sooner, so that sessions that began together do not ask
// together. The method may have it wait for its turn.
const askAgainAfter = time.Minute

// longestQuestion bounds a question, with the wait for others.
const longestQuestion = 30 * time.Second

// question is what a session's method is asked with once more. It is owned by the session's loop.
type question struct {
	text   string    // static; it has secrets
	at     time.Time // when to ask
	turn   bool      // the method has said that this is its turn
	asking bool
}

// question returns what the session's method is asked with once more; nil for nothing.
func (s *Session) question() *question { return s.limited.asksAgain() }

// newQuestion returns a question that an answer was just given to.
func (s *Sessions) newQuestion(text string) *question {
	return &question{text: text, at: time.Now().Add(s.askAgainAfter())}
}

func (s *Sessions) askAgainAfter() time.Duration {
	after := s.options.AskAgainAfter
	if after == 0 {
		after = askAgainAfter
	}
	return after - rand.N(after/4+1)
}

// askAgain asks the session's method once more, in a goroutine of its own, if that is due.
func (s *Session) askAgain(policy *auth.Policy) {
	q, now := s.question(), time.Now()
	if q == nil || q.asking || now.Before(q.at) {
		return
	}
	sessions, client, text := s.sessions, s.client, q.text
	asker := policy.Methods.Asker(s.record.Identity.Method)
	q.at = now.Add(sessions.askAgainAfter())
	if asker == nil { // the service authenticates in another way now
		return
	}
	if !q.turn {
		if wait := asker.Turn(); wait > 0 {
			q.turn, q.at = true, now.Add(wait)
			return
		}
	}
	q.turn = false
	q.asking = sessions.pending.Go(func() {
		reason := ""
		defer func() { client.Post(func() { s.askedAgain(q, reason) }) }()
		defer sessions.shared.Guard.Recover("authentication", func() {})
		ctx, cancel := context.WithTimeout(sessions.closing, longestQuestion)
		defer cancel()
		reason = asker.Again(ctx, text)
	})
}

// askedAgain ends the session if its client is turned away now.
func (s *Session) askedAgain(q *question, reason string) {
	if q != s.question() || !s.record.Ended.IsZero() { // its client may have another credential by now
		return
	}
	q.asking, q.at = false, time.Now().Add(s.sessions.askAgainAfter())
	if policy := s.access(); reason != "" && policy != nil && policy.EndUnauthorized {
		s.End(meter.Unauthorized, frame.PolicyViolation, reason)
		return
	}
	s.checkCredential()
}
