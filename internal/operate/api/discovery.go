package api

import (
	"strings"
	"time"
)

// Discovery is how DNS is asked for the servers of one backend.
type Discovery struct {
	Backend  string    `json:"backend"` // as in the configuration; its servers' names are BACKEND@ADDRESS:PORT
	Service  string    `json:"service"`
	Host     string    `json:"host"`               // that is looked up
	Records  string    `json:"records"`            // address or SRV
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

// Lookup returns how DNS is asked for the servers of a backend; nil if it is not. A nil Stats knows none.
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
