package admission

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// This file takes the places of a client in what is limited.

// enter takes the place of a client that has not said who it is: in its address. The error is a [handshake.Refusal].
func (g *Gate) enter(service *route.Service, a *arrival) error {
	a.LimitsAt, a.Hold = g.shared.Scopes.Generation(), new(limits.Hold)
	return g.limitReached(g.shared.Scopes.Arrive(route.Now(), service.Visitor(a.Address.Addr(), a.Identity), a.Hold))
}

// enterAuthenticated takes the other places of a client that was authenticated, or need not be: in its key, its tenant, its service and the
// process.
func (g *Gate) enterAuthenticated(service *route.Service, a *arrival) error {
	if err := g.limitReached(g.shared.Scopes.Admit(route.Now(), service.Visitor(a.Address.Addr(), a.Identity), a.Hold)); err != nil {
		return err
	}
	if left := g.shared.Scopes.AudioLeft(a.Hold); left != nil {
		a.AudioLeft = strconv.Itoa(int(left.Audio.Seconds()))
	}
	return nil
}

// limitReached returns the answer to a client that is refused because of a limit; nil for none.
func (g *Gate) limitReached(r *limits.Refusal) error {
	if r == nil {
		return nil
	}
	cause := limits.Cause{Scope: r.Scope, Limit: r.Limit}
	g.shared.LimitLog.NoteRefusal(cause)
	who := r.Scope.Kind()
	refusal := &handshake.Refusal{
		Status: http.StatusTooManyRequests, Reason: "too many sessions " + whose[who], Logged: limits.DescribeCause(cause, "") + " reached", Header: handshake.RetryAfter(route.RetryAfter),
	}
	switch {
	case r.Limit == limits.SessionRate:
		refusal.Reason = "too many new sessions " + whose[who] + ": try again later"
		refusal.Header = handshake.RetryAfter(int(math.Ceil(r.Wait.Seconds())))
	case r.Limit == limits.AudioQuota:
		refusal.Reason = "the audio quota " + whose[who] + " is used up: it renews at " + r.Renews.UTC().Format(time.RFC3339)
		refusal.Header = handshake.RetryAfter(int(math.Ceil(time.Until(r.Renews).Seconds())))
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
