package api

import (
	"strings"
	"time"
)

// Orders of GET /api/v1/backends.
const (
	BackendsByName  = "name"
	BackendsScaleIn = "scale-in" // the one to empty first comes first
)

// BackendOrders are the orders of GET /api/v1/backends, the default first.
var BackendOrders = []string{BackendsByName, BackendsScaleIn}

// BackendInUse is a backend that runs, and what emptying it would mean: GET /api/v1/backends?service=NAME&sort=scale-in.
type BackendInUse struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	// DiscoveredFrom is the backend of the configuration whose name led to this server; empty for a backend of the configuration.
	DiscoveredFrom    string `json:"discovered_from,omitempty"`
	State             string `json:"state"`              // the desired state: enabled, draining or disabled
	Usable            bool   `json:"usable"`             // sessions may begin
	Sessions          int    `json:"sessions"`           // of this proxy
	SessionsElsewhere int    `json:"sessions_elsewhere"` // of the other proxies that share the server
	// RemainingSeconds is how long all of these sessions are expected to last on, added up, and LongestSeconds the longest of these times: each
	// is the mean of those sessions of the service that have lasted longer.
	RemainingSeconds float64 `json:"remaining_seconds"`
	LongestSeconds   float64 `json:"longest_seconds"`
	// Moves: another backend can continue its sessions (`backend drain NAME --move`).
	Moves bool `json:"moves"`
}

// Healthy is the condition of a backend that works.
const Healthy = "healthy"

// Unreachable is the condition of a backend to which a proxy has no connection, and cannot get one.
const Unreachable = "unreachable"

// Hung is the condition of a backend that owes several sessions results for far longer than usual.
const Hung = "hung"

// The levels of a condition, besides those of problems.
const (
	LevelOK  = "ok"
	LevelOff = "off" // an operator has taken it out of service
)

// Condition is how a service or backend is, in a word or two, for people.
type Condition struct {
	Word  string    `json:"word"`           // such as healthy or hung; of a service, such as up or degraded
	Level string    `json:"level"`          // ok, off, warning or failure
	Why   string    `json:"why,omitempty"`  // empty if all is well, or if that is not known
	Since time.Time `json:"since,omitzero"` // zero if that is not known
}

// Condition returns what keeps sessions away, by itself; that of a [Backend] says more. The word is healthy, circuit open, circuit half-open, probe
// fails, canary fails, stalled, outlier or unreachable: the first of these that is true.
func (h *Health) Condition() Condition {
	bad := func(word, why string, since time.Time) Condition {
		return Condition{Word: word, Level: LevelFailure, Why: why, Since: since}
	}
	switch {
	case h.Circuit != "" && h.Circuit != "closed":
		return bad("circuit "+h.Circuit, h.CircuitReason, h.CircuitSince)
	case h.Probe == "down":
		return bad("probe fails", h.ProbeReason, h.ProbeSince)
	case h.Canary == "down":
		return bad("canary fails", h.CanaryReason, h.CanarySince)
	case h.Stalled:
		return bad("stalled", h.StalledReason, h.StalledSince)
	case h.Outlier:
		return bad("outlier", h.OutlierReason, h.OutlierSince)
	case !h.Reachable:
		return bad(Unreachable, h.Reason, h.Since)
	}
	return Condition{Word: Healthy, Level: LevelOK, Since: h.Since}
}

// TakesSessions reports whether sessions may begin on the backend: it works, and no operator keeps them away. Usable alone says only the former.
func (b *Backend) TakesSessions() bool { return b.Usable && b.State == "enabled" && b.Weight > 0 }

const (
	// hungSessions is how many sessions a server must keep waiting to be taken to hang, or all that it has, if they wait for hungAlone.
	hungSessions = 3
	hungAlone    = 30.0 // seconds
)

// Hangs reports whether this number of overdue sessions, at least one, is enough to call the backend hung.
func (b *Backend) Hangs(overdue int) bool {
	return overdue >= hungSessions || overdue > 0 && overdue >= b.Leased && b.Overdue.LongestSeconds >= hungAlone
}

// Service returns the statistics of a service; nil if there are none. A nil Stats knows none.
func (s *Stats) Service(name string) *Service {
	if s != nil {
		for i := range s.Services {
			if s.Services[i].Name == name {
				return &s.Services[i]
			}
		}
	}
	return nil
}

// Backend returns the statistics of a backend; nil if there are none. A nil Stats knows none.
func (s *Stats) Backend(name string) *Backend {
	if s != nil {
		for i := range s.Backends {
			if s.Backends[i].Name == name {
				return &s.Backends[i]
			}
		}
	}
	return nil
}

// Discovery is how the servers of one backend are looked up.
type Discovery struct {
	Backend  string    `json:"backend"` // as in the configuration; its servers' names are BACKEND@ADDRESS:PORT
	Service  string    `json:"service"`
	Host     string    `json:"host"`               // that is looked up
	Records  string    `json:"records"`            // address or SRV, of DNS, or EndpointSlice, of Kubernetes
	Servers  int       `json:"servers"`            // that the name stands for at present
	Asked    time.Time `json:"asked,omitzero"`     // the end of the last lookup
	Answered time.Time `json:"answered,omitzero"`  // the end of the last lookup that found servers
	Failing  time.Time `json:"failing,omitzero"`   // since when lookups fail or find nothing; the servers stay meanwhile
	Reason   string    `json:"reason,omitempty"`   // why the last lookup failed
	Lookups  uint64    `json:"lookups"`            // since the backend has its URL
	Failures uint64    `json:"failures"`           // of those, how many failed or found nothing
	LeftOut  []string  `json:"left_out,omitempty"` // addresses of the last answer that are not used, and why; the first few
}

// IsBackend reports whether a backend of the statistics, or of a session, is the one with this name: it has the name, or it is a server
// that was discovered for the backend of this name, BACKEND@ADDRESS:PORT.
func IsBackend(name, wanted string) bool {
	return name == wanted || len(name) > len(wanted) && name[len(wanted)] == '@' && strings.HasPrefix(name, wanted)
}

// BackendsOf returns the statistics of the backend with this name, or of all servers that were discovered for it.
func (s *Stats) BackendsOf(name string) (all []*Backend) {
	if s == nil {
		return nil
	}
	for i := range s.Backends {
		if IsBackend(s.Backends[i].Name, name) {
			all = append(all, &s.Backends[i])
		}
	}
	return all
}

// BackendNames returns the names that a backend can be asked for by: of all backends, and of those with discover.
func (s *Stats) BackendNames() (names []string) {
	for i := range s.Backends {
		names = append(names, s.Backends[i].Name)
	}
	for i := range s.Discovery {
		names = append(names, s.Discovery[i].Backend)
	}
	return names
}

// Lookup returns how the servers of a backend are looked up; nil if they are not. A nil Stats knows none.
func (s *Stats) Lookup(backend string) *Discovery {
	if s != nil {
		for i := range s.Discovery {
			if s.Discovery[i].Backend == backend {
				return &s.Discovery[i]
			}
		}
	}
	return nil
}
