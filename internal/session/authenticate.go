package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The texts of answers to clients that are not authenticated. There are few, so that nobody can tell from them what is wrong with a
// credential. The log has the reason.
const (
	unauthorized = "unauthorized: the service requires a valid credential"
	forbidden    = "forbidden: the credential is not good for this service"
	guessing     = "too many failed authentications from this address: try again later"
	cannotTell   = "authentication does not work at present"
	crowded      = "too many clients wait for authentication: try again later"
)

// authenticate finds out who the client is, and notes it in arrival. It runs in the goroutine of the client's handshake, and waits for a
// method at most as long as a handshake may take. The error is a [handshake.Refusal].
func (g *Gate) authenticate(service *Service, req *handshake.Request, arrival *arrival) error {
	policy := service.Auth
	if policy == nil {
		arrival.Identity = certified(arrival.certificate)
		return nil
	}
	client := arrival.Address.Addr()
	if wait := g.options.AuthGuard.Wait(client); wait > 0 { // before anything is computed or asked for the client
		return &handshake.Refusal{
			Status: http.StatusTooManyRequests, Reason: guessing, Header: handshake.RetryAfter(int(math.Ceil(wait.Seconds()))),
		}
	}
	var question string
	credential, grant, err := policy.Sources.Credential(req.Request)
	if err != nil {
		return &handshake.Refusal{Status: http.StatusBadRequest, Reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(g.drained, g.limits.Load().HandshakeTimeout)
	defer cancel()
	attempt := auth.Attempt{
		Service: service.Name, Credential: credential, Client: client, Certificate: arrival.certificate, Request: req.Request,
		Waits: func() error {
			if !arrival.opening.stepAside(service.Name, g.maxHandshakes()) {
				return errCrowded
			}
			return nil
		},
	}
	if policy.EndUnauthorized {
		attempt.Question = &question
	}
	who, method, err := policy.Methods.Authenticate(ctx, &attempt)
	arrival.opening.comeBack()
	var denied *auth.Denied
	switch {
	case errors.Is(err, errCrowded):
		g.auth.Add(method, auth.Failed)
		return Unavailable(crowded)
	case err == nil:
		g.auth.Add(method, auth.Accepted)
		arrival.Identity, arrival.Grant = who, grant
		arrival.Question = question
		return nil
	case errors.As(err, &denied):
		g.auth.Add(method, auth.Refused)
		arrival.Identity = denied.Identity
		if isGuess(denied) {
			g.options.AuthGuard.Failed(client, service.Name)
		}
		return deniedAnswer(service.Name, denied)
	case g.drained.Err() != nil:
		return Unavailable("shutting down")
	}
	g.auth.Add(method, auth.Failed)
	return &handshake.Refusal{
		Status: http.StatusServiceUnavailable, Reason: cannotTell, Logged: fmt.Sprintf("authentication by %s does not work: %v", method, err),
		Header: handshake.RetryAfter(retryAfter),
	}
}

// isGuess reports whether a client that is turned away may have guessed: it is not known, although it gave something. Servers that are
// asked about clients say 401 or 403 to that.
func isGuess(denied *auth.Denied) bool {
	switch denied.Code() {
	case http.StatusUnauthorized:
		return !denied.Missing
	case http.StatusForbidden:
		return !denied.Missing && denied.Identity == nil
	}
	return false
}

// errCrowded is the answer to a client for which a method would have to wait, as too many do already.
var errCrowded = &auth.Denied{Status: http.StatusServiceUnavailable, Err: errors.New(crowded)}

// deniedAnswer returns the answer to a client that is turned away.
func deniedAnswer(service string, denied *auth.Denied) *handshake.Refusal {
	refusal := &handshake.Refusal{Status: denied.Code(), Logged: denied.Error(), Header: make(http.Header)}
	for name, values := range denied.Header {
		refusal.Header[name] = values
	}
	switch refusal.Status {
	case http.StatusUnauthorized:
		refusal.Reason = unauthorized
		if refusal.Header.Get(challengeHeader) == "" {
			refusal.Header.Set(challengeHeader, challenge(service, denied.Missing))
		}
	case http.StatusForbidden:
		refusal.Reason = forbidden
	case http.StatusServiceUnavailable:
		refusal.Reason = cannotTell
	default:
		refusal.Reason = http.StatusText(refusal.Status)
	}
	return refusal
}

// challengeHeader says how a client can authenticate (RFC 9110, section 11.6.1).
const challengeHeader = "Www-Authenticate"

// challenge returns the challenge to a client without a valid credential (RFC 6750, section 3). A service's name needs no quoting.
func challenge(service string, missing bool) string {
	text := `Bearer realm="` + service + `"`
	if !missing {
		text += `, error="invalid_token"`
	}
	return text
}

// shortestCheck is the shortest time, and longestCheck the longest, after which a session's credential is looked at once more.
const (
	shortestCheck = time.Millisecond
	longestCheck  = 24 * time.Hour
)

// access returns the policy by which the session's client may stay: that of the service as it is now, or as it was before it was removed.
func (s *Session) access() *auth.Policy {
	service := s.record.Service
	if now := s.server.routes.Load().byName[service.Name]; now != nil {
		service = now
	}
	return service.Auth
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

// checkCredential ends the session if its client may not stay and the service says so. Otherwise it notes when to check again.
func (s *Session) checkCredential() {
	who, policy := s.record.Identity, s.access()
	if who == nil || !s.record.Ended.IsZero() {
		return
	}
	if policy != nil && policy.EndUnauthorized {
		expires, reason := policy.Methods.Revoked(s.record.Service.Name, who, time.Now())
		if reason != "" {
			s.end(meter.Unauthorized, frame.PolicyViolation, reason)
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

// CheckCredentials checks the credentials of all sessions once more, after keys or services have changed. It must not be called on a
// loop, and returns when all sessions whose clients may not stay have been told to end.
func (s *Sessions) CheckCredentials() {
	all, _ := s.registry.all()
	s.each(all, (*Session).checkCredential)
}

// maxIdentity is how much is shown of each text of an identity, in bytes.
const maxIdentity = 128

// shownIdentity returns what logs say about a client's identity: names with texts.
func shownIdentity(who *identity.Identity) []string {
	if who == nil {
		return nil
	}
	shown := ShownIdentity(who)
	return []string{"tenant", shown.Tenant, "subject", shown.Subject, "auth", shown.Method, "key", shown.Key}
}

// ShownIdentity returns what operators see of a client's identity: printable texts of bounded length, which come from tokens and
// certificates as their issuers wrote them. The zero value stands for nobody.
func ShownIdentity(who *identity.Identity) (shown identity.Identity) {
	if who == nil {
		return shown
	}
	shown = *who
	for _, text := range []*string{&shown.Tenant, &shown.Subject, &shown.Key} {
		*text = printable.Text(*text, maxIdentity)
	}
	return shown
}
