package admission

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The texts of answers to clients that are not authenticated. There are few, so that a client cannot tell from them what is wrong with a
// credential. The log has the reason.
const (
	unauthorized = "unauthorized: the service requires a valid credential"
	forbidden    = "forbidden: the credential is not good for this service"
	guessing     = "too many failed authentications from this address: try again later"
	cannotTell   = "authentication does not work at present"
	crowded      = "too many clients wait for authentication: try again later"
)

// authTimeout returns how long authentication may take: as long as a handshake, or longer if the service's methods need that.
func (g *Gate) authTimeout(service *route.Service) time.Duration {
	timeout := g.limits.Load().HandshakeTimeout
	if policy := service.Auth; policy != nil {
		timeout = max(timeout, policy.Timeout)
	}
	return timeout
}

// authenticate finds out who the client is, and notes it in arrival. It runs in the goroutine of the client's handshake, and waits for a
// method at most for authTimeout. The error is a [handshake.Refusal].
func (g *Gate) authenticate(service *route.Service, req *handshake.Request, arrival *arrival) error {
	policy := service.Auth
	if policy == nil {
		arrival.Identity = certified(arrival.certificate)
		return nil
	}
	client := arrival.Address.Addr()
	if refusal := g.refuseGuessing(service, arrival); refusal != nil { // before anything is computed or asked for the client
		return refusal
	}
	var question string
	credential, grant, err := policy.Sources.Credential(req.Request)
	if err != nil {
		return &handshake.Refusal{Status: http.StatusBadRequest, Reason: err.Error()}
	}
	until := g.drained
	if arrival.via != nil { // a proxy that drains still serves its sessions
		until = g.closing
	}
	ctx, cancel := context.WithTimeout(until, g.authTimeout(service))
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
		return route.Unavailable(crowded)
	case err == nil:
		g.auth.Add(method, auth.Accepted)
		arrival.Identity, arrival.Grant, arrival.CredentialHash = who, grant, credentialHash(who, &attempt)
		arrival.Question = question
		return nil
	case errors.As(err, &denied):
		g.auth.Add(method, auth.Refused)
		arrival.Identity = denied.Identity
		if isGuess(denied) {
			g.options.AuthGuard.Failed(client, service.Name)
		}
		return deniedAnswer(service.Name, denied)
	case until.Err() != nil:
		return route.Unavailable("shutting down")
	}
	g.auth.Add(method, auth.Failed)
	return &handshake.Refusal{
		Status: http.StatusServiceUnavailable, Reason: cannotTell, Logged: fmt.Sprintf("authentication by %s does not work: %v", method, err),
		Header: handshake.RetryAfter(route.RetryAfter),
	}
}

// credentialHash returns what tells the client apart from others if its identity does not: without a subject or a key's name, all clients of a
// tenant, or of the service, have the same. It is zero if the identity does.
func credentialHash(who *identity.Identity, a *auth.Attempt) (hash [sha256.Size]byte) {
	switch {
	case who.Subject != "" || who.Key != "":
		return hash
	case who.Method == identity.MethodCertificate && a.Certificate != nil:
		return sha256.Sum256(a.Certificate.Raw)
	case a.Credential != "":
		return sha256.Sum256([]byte(a.Credential))
	}
	return sha256.Sum256([]byte(strings.Join(a.Request.Header["Authorization"], "\n"))) // such as Basic, which only a server that is asked can judge
}

// revoked returns why a client is refused whose API key was revoked while it waited; nil if it was not.
func (g *Gate) revoked(service *route.Service, who *identity.Identity) error {
	if who == nil || who.Method != identity.MethodKeys {
		return nil
	}
	policy := g.routes.Load().Current(service).Auth
	if policy == nil {
		return nil
	}
	if _, reason := policy.Revoked(service.Name, who, time.Now()); reason != "" {
		return deniedAnswer(service.Name, &auth.Denied{Status: http.StatusUnauthorized, Identity: who, Err: errors.New(reason)})
	}
	return nil
}

// refuseGuessing returns why the service's clients of an address are refused from which authentication fails too often; nil if they are not.
func (g *Gate) refuseGuessing(service *route.Service, arrival *arrival) error {
	if service.Auth == nil {
		return nil
	}
	wait := g.options.AuthGuard.Wait(arrival.Address.Addr())
	if wait <= 0 {
		return nil
	}
	return &handshake.Refusal{Status: http.StatusTooManyRequests, Reason: guessing, Header: handshake.RetryAfter(int(math.Ceil(wait.Seconds())))}
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
		if refusal.Header.Get("Retry-After") == "" {
			maps.Copy(refusal.Header, handshake.RetryAfter(route.RetryAfter))
		}
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
