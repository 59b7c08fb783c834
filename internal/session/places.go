package session

import (
	"math"
	"net/http"
	"net/netip"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file takes a client's places in what is limited, before it has a session. limited.go is what a session does with them.

// instant returns the present as package limits knows it.
func instant() limits.Instant { return limits.Instant(loop.Now()) }

// enter takes the place of a client that has not said who it is: in its address. The error is a [handshake.Refusal].
func (s *Server) enter(service *Service, a *arrival) error {
	a.limitsAt, a.hold = s.options.Scopes.Generation(), new(limits.Hold)
	return s.limitReached(s.options.Scopes.Arrive(instant(), visitor(service, a.client.Addr(), a.identity), a.hold))
}

// enterAuthenticated takes the other places of a client that was authenticated, or need not be: in its key, its tenant, its service and the
// process.
func (s *Server) enterAuthenticated(service *Service, a *arrival) error {
	return s.limitReached(s.options.Scopes.Admit(instant(), visitor(service, a.client.Addr(), a.identity), a.hold))
}

// visitor returns what limits depend on: a client's service, its address, and who it is if that is known.
func visitor(service *Service, address netip.Addr, who *identity.Identity) *limits.Visitor {
	v := &limits.Visitor{Service: service.Scopes, Address: address}
	if who != nil {
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
	s.limitLog.Reached(cause, "")
	who := r.Scope.Kind()
	refusal := &handshake.Refusal{
		Status: http.StatusTooManyRequests, Reason: "too many sessions " + whose[who], Logged: cause.Text("") + " reached", Header: handshake.RetryAfter(retryAfter),
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
