package services

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Ready returns nil when every service that has enabled backends has one that can serve a new session. Otherwise the error names a
// service without such a backend, and why each of its backends cannot serve. docs/reference/admin-api.md has the details.
//
// It ignores a service that was added while the proxy runs and could never serve: a mistake in the configuration must not send the
// clients of all other services away.
func (s *Services) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.inOrder() {
		if err := s.readyOf(v); err != nil {
			return err
		}
	}
	return nil
}

// The functions below are called with Services.mu held.

// readyOf is Ready for one service.
func (s *Services) readyOf(v *service) error {
	if !v.atStart && !v.hasServed() {
		return nil
	}
	reasons, err := s.withoutServers(v)
	if err != nil {
		return err
	}
	serves := false
	for _, m := range v.inOrder() {
		book := m.Stats()
		if book.State != pool.Enabled.String() || book.Weight == 0 || book.Ceiling <= 0 { // the ceiling is 0 while another service uses all of its server
			continue
		}
		if book.Limit == 0 && book.Usable {
			if reason := s.cannotGet(v, m); reason != "" {
				reasons = append(reasons, reason)
			} else {
				serves = true
			}
			continue
		}
		switch reason := m.cannotServe(&book); {
		case reason == "":
			serves = true
		case m.atStart && book.Totals.Dialed+book.Totals.DialFailed == 0 && book.Usable: // its first connection is being dialed
			return fmt.Errorf("not ready: service %s: %s", v.name, reason)
		default:
			reasons = append(reasons, reason)
		}
	}
	if serves || len(reasons) == 0 {
		return nil
	}
	const most = 5
	if more := len(reasons) - most; more > 0 {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("not ready: service %s: %s", v.name, strings.Join(reasons, "; "))
}

// withoutServers returns why backends with discover have no server yet. The error says why the service is not ready, whatever its other
// backends are: the first lookup since the proxy started is under way.
func (s *Services) withoutServers(v *service) (reasons []string, err error) {
	for _, b := range v.plan.declared {
		if !b.Discovers() || b.mode != pool.Enabled || b.Weight == 0 || s.desired.running[b.name]+len(s.desired.shared[b.name]) > 0 {
			continue
		}
		now, _ := s.discovery.Status(b.name)
		if now.Failures == 0 && v.atStart && !v.hasServed() {
			return nil, fmt.Errorf("not ready: service %s: the servers of %s (backend %s) are being looked up", v.name, b.question.Host, b.name)
		}
		reasons = append(reasons, fmt.Sprintf("no server for %s (backend %s): %s", secret.URL(b.URL), b.name, cmp.Or(now.Reason, "it is being looked up")))
	}
	return reasons, nil
}

// cannotGet returns why a backend of which the proxy has no place cannot serve a new session; empty if it can, since a place is granted when
// a client waits.
//
// It can, too, if the ledger was lost or begins anew only after it could grant places, or after the service has had one: the fleet goes on with
// what each proxy has, and a load balancer must not take all of them out of service for it.
func (s *Services) cannotGet(v *service, m *member) string {
	why := "the ledger of the fleet has not answered yet"
	if s.ledger != nil {
		why = s.ledger.Trouble
	}
	if why == "" || s.granting || v.hasServed() {
		return ""
	}
	return fmt.Sprintf("no place granted at %s (backend %s): %s", m.URL(), m.Name(), why)
}

// hasServed reports whether the service has ever had a connection.
func (v *service) hasServed() bool {
	for _, m := range v.members {
		if v.served {
			break
		}
		v.noteServed(m)
	}
	return v.served
}

// noteServed remembers that the service had a connection to a backend, which may be about to be removed.
func (v *service) noteServed(m *member) {
	if book := m.Stats(); book.Totals.Dialed > 0 {
		v.served = true
	}
}

// cannotServe returns why an enabled backend cannot serve a new session; empty if it can. A backend whose connections are all in
// use can: clients wait in the queue.
func (m *member) cannotServe(book *pool.Stats) string {
	connected := book.Idle+book.Leased+book.Resetting > 0
	if book.Usable && (connected || book.Warm == 0 || m.OnDemand()) { // without warm connections, they are dialed for clients
		return ""
	}
	now := m.Health()
	what, why := "no connection to", now.Reason
	if connected {
		what = "no new sessions for"
	}
	state := ""
	switch {
	case book.Usable && why == "": // the last dial succeeded, and its connection was lost
		why = "the last connection was lost, the next is being dialed"
	case book.Usable:
	case now.Circuit != health.Closed.String():
		state, why = ", circuit "+now.Circuit, now.CircuitReason
	case now.Probe == "down":
		state, why = ", probe fails", now.ProbeReason
	case now.Canary == "down":
		state, why = ", canary fails", now.CanaryReason
	case now.Probe == "unknown":
		why = "the probe has not been answered yet"
	case now.Stalled:
		state, why = ", stalled", now.StalledReason
	default:
		why = "it is returning to service"
	}
	return fmt.Sprintf("%s %s (backend %s%s): %s", what, m.URL(), m.Name(), state, why)
}
