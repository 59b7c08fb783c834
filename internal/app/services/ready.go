package services

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// serviceReadiness is whether a service can serve a new session.
type serviceReadiness struct {
	name     string
	reason   string // why it cannot; empty if it can
	starting string // which of its first connections is being tried; empty for none
	servers  bool   // it has enabled backends
	full     bool   // one of its servers works, and refuses connections because it is full
}

// maxReasons is how many backends the reason of a service names at most.
const maxReasons = 5

// Ready returns nil if the services are ready, see [Services.Readiness]; otherwise an error that names the services because of which they are
// not, each with its reason.
func (s *Services) Ready(required []string) error {
	if _, culprits := s.readiness(required); len(culprits) > 0 {
		return errors.New("not ready: " + strings.Join(culprits, "; "))
	}
	return nil
}

// Readiness returns which services can serve a new session, in the order of their names, and whether that is enough: one service can, and those
// that are required can. While the first connections since the start are being tried, it is not, so that a load balancer does not send all clients
// to what happens to be up first. Services without enabled backends do not count, unless they are required: with no others, there is no client to
// serve. docs/reference/admin-api.md has the details.
func (s *Services) Readiness(required []string) admin.Readiness {
	r, _ := s.readiness(required)
	return r
}

// Lacks returns why this process must not take over from one whose services are ready; empty if it may. That other one may have the places of servers
// that are full. Where one service can serve, no first connection is waited for: its server may be unreachable for both.
func (s *Services) Lacks(required []string) string {
	all := s.readyOfAll()
	serves := slices.ContainsFunc(all, func(v serviceReadiness) bool { return v.reason == "" || v.full })
	for i := range all {
		if all[i].full {
			all[i].reason = ""
		}
		if serves {
			all[i].starting = ""
		}
	}
	_, culprits := judge(all, required)
	return strings.Join(culprits, "; ")
}

// UsesAllPlaces reports whether no server that works has a place left for a connection more, as far as its cap says.
func (s *Services) UsesAllPlaces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		for _, m := range v.members {
			if book := m.Stats(); book.State == pool.Enabled.String() && book.Usable && book.Weight > 0 && book.Used() < book.Ceiling {
				return false
			}
		}
	}
	return true
}

// readiness is Readiness, and returns the services because of which it is not enough, each with its own reason: "service stt: no connection to ...".
func (s *Services) readiness(required []string) (r admin.Readiness, culprits []string) {
	return judge(s.readyOfAll(), required)
}

// readyOfAll returns whether each service can serve, in the order of their names.
func (s *Services) readyOfAll() (all []serviceReadiness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.inOrder() {
		all = append(all, s.readyOf(v))
	}
	isStarting := slices.ContainsFunc(all, func(v serviceReadiness) bool { return v.starting != "" })
	s.started = s.started || s.begun && !isStarting
	return all
}

// judge returns what [Services.readiness] does.
func judge(all []serviceReadiness, required []string) (r admin.Readiness, culprits []string) {
	var starting, failing, missing, mustServe []string
	culprit := func(name, reason string) string { return fmt.Sprintf("service %s: %s", name, reason) }
	serves := false
	reasons := make(map[string]string, len(all))
	for _, v := range all {
		r.Services = append(r.Services, admin.ServiceReadiness{Name: v.name, Reason: v.reason})
		reasons[v.name] = v.reason
		serves = serves || v.reason == ""
		if v.starting != "" {
			starting = append(starting, culprit(v.name, v.starting))
		}
		if v.reason != "" && v.servers {
			failing = append(failing, culprit(v.name, v.reason))
		}
	}
	for _, name := range required {
		reason, exists := reasons[name]
		if !exists {
			reason = "there is no such service"
		}
		if reason != "" {
			missing = append(missing, culprit(name, reason))
			mustServe = append(mustServe, name)
		}
	}
	switch {
	case len(missing) > 0:
		r.Reason, culprits = "ready-services names services that cannot serve: "+strings.Join(mustServe, ", "), missing
	case !serves && len(failing) > 0:
		r.Reason, culprits = "no service can serve", failing
	case len(starting) > 0:
		r.Reason, culprits = "the first connections are being tried: "+strings.Join(starting, "; "), starting
	}
	return r, culprits
}

// The functions below are called with Services.mu held.

// readyOf returns whether a service can serve.
func (s *Services) readyOf(v *service) serviceReadiness {
	r := serviceReadiness{name: v.name}
	reasons, looking := s.withoutServers(v)
	r.starting = looking
	serves := false
	for _, m := range v.inOrder() {
		book := m.Stats()
		if book.State != pool.Enabled.String() || book.Weight == 0 || book.Ceiling <= 0 { // the ceiling is 0 while another service uses all of its server
			continue
		}
		reason := ""
		if book.Limit == 0 && book.Usable {
			reason = s.cannotGet(v, m)
		} else {
			reason = m.cannotServe(&book)
			if m.atStart && book.Totals.Dialed+book.Totals.DialFailed == 0 && book.Usable {
				r.starting = cmp.Or(r.starting, reason) // its first connection is being dialed
			}
		}
		if reason == "" {
			serves = true
		} else {
			reasons, r.full = append(reasons, reason), r.full || m.IsFull()
		}
	}
	r.servers = serves || len(reasons) > 0
	switch {
	case serves:
	case !r.servers:
		r.reason = "none of its backends is enabled and has places"
	default:
		if more := len(reasons) - maxReasons; more > 0 {
			reasons = append(reasons[:maxReasons], fmt.Sprintf("and %d more", more))
		}
		r.reason = strings.Join(reasons, "; ")
	}
	return r
}

// withoutServers returns why backends with discover have no server yet, and which first lookup since the proxy started is under way; empty
// for none.
func (s *Services) withoutServers(v *service) (reasons []string, looking string) {
	for _, b := range v.plan.declared {
		if !b.Discovers() || b.mode != pool.Enabled || b.Weight == 0 || s.desired.running[b.name]+len(s.desired.shared[b.name]) > 0 {
			continue
		}
		now, _ := s.discovery.Status(b.name)
		if now.Failures == 0 && v.atStart && !v.hasServed() {
			looking = fmt.Sprintf("the servers of %s (backend %s) are being looked up", b.question.Host, b.name)
			reasons = append(reasons, looking)
			continue
		}
		reasons = append(reasons, fmt.Sprintf("no server for %s (backend %s): %s", secret.URL(b.URL), b.name, cmp.Or(now.Reason, "it is being looked up")))
	}
	return reasons, looking
}

// cannotGet returns why a backend of which the proxy has no place cannot serve a new session; empty if it can, since a place is granted when
// a client waits.
//
// It can, too, if the ledger was lost or begins anew only after the service has had one: the fleet continues with what each proxy has, and a load
// balancer must not take all of them out of service for it.
func (s *Services) cannotGet(v *service, m *member) string {
	why := "the ledger of the fleet has not answered yet"
	if s.ledger != nil {
		why = s.ledger.Trouble
	}
	if why == "" || v.hasServed() {
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
