// Package diagnosis computes what is wrong with a proxy: the proxy evaluates it once a second, and its API, `wsbouncer status`, `top`, the
// dashboard, the log and the metrics show the one list. It is pure: no I/O, no clock.
//
// A rule looks at [Facts], and names what is wrong at one instant ([Find]). A [Watch] follows the statistics of a proxy, and decides when a
// problem begins and ends, so that a spike is none.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Facts are what the rules know. They must not change them.
type Facts struct {
	Now    time.Time
	Stats  *api.Stats
	Recent Recent
}

// backends returns the backends of a service.
func (f *Facts) backends(service string) (all []*api.Backend) {
	for i := range f.Stats.Backends {
		if b := &f.Stats.Backends[i]; b.Service == service {
			all = append(all, b)
		}
	}
	return all
}

// rule names what is wrong of one group of kinds.
type rule func(f *Facts, found *findings)

// rules are all rules. Those behind may look at what those before have found.
var rules = []rule{
	ofProcess, ofDisks, ofConfiguration, ofCertificates, ofFleet,
	ofBackends, ofHung, ofDiscovery, ofSlowness,
	ofServices, ofFailover, ofLimits, ofClients,
}

// Find returns what is wrong at this instant, first what hurts clients now. Services and backends keep their order. Since is zero where
// the statistics do not know it.
func Find(f *Facts) []api.Problem {
	var found findings
	for _, r := range rules {
		r(f, &found)
	}
	Sort(found.all)
	return found.all
}

// Sort puts problems in the order in which they are shown. Those of one kind keep theirs.
func Sort(all []api.Problem) {
	slices.SortStableFunc(all, func(a, b api.Problem) int {
		return cmp.Or(
			CompareHurts(a.Hurts, b.Hurts),
			strings.Compare(a.Level, b.Level), // failure before warning
			cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)),
		)
	})
}

// CompareHurts orders whom problems hurt: clients first.
func CompareHurts(a, b string) int {
	order := []string{api.HurtsClients, api.HurtsSoon, api.HurtsOperator}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}

// findings are the problems that the rules have found so far.
type findings struct{ all []api.Problem }

// subject is what a problem is about.
type subject struct{ what, service, backend string }

var theProxy = subject{what: "proxy"}

func service(name string) subject { return subject{"service " + name, name, ""} }

func backend(b *api.Backend) subject { return subject{"backend " + b.Name, b.Service, b.Name} }

// add adds a problem with its evidence, and returns it to set what is more than usual of its kind, until the next one is added.
func (f *findings) add(kind Kind, about subject, format string, args ...any) *api.Problem {
	n := natureOf(kind)
	f.all = append(f.all, api.Problem{
		Kind: string(kind), Level: n.level, Hurts: n.hurts, What: about.what, Service: about.service, Backend: about.backend,
		Text: fmt.Sprintf(format, args...),
	})
	return &f.all[len(f.all)-1]
}

// has reports whether a problem was found that is of one of these kinds and about a service; an empty name means any, and none.
func (f *findings) has(service string, kinds ...Kind) bool {
	return slices.ContainsFunc(f.all, func(p api.Problem) bool {
		return (service == "" || p.Service == service) && slices.Contains(kinds, Kind(p.Kind))
	})
}

// takeOut removes the problems of a service's backends that keep sessions away from them, and returns them: they are causes of a problem
// of the service. Those that an operator has taken out of service are among them if all is true.
func (f *findings) takeOut(service string, all bool) (causes []api.Problem) {
	f.all = slices.DeleteFunc(f.all, func(p api.Problem) bool {
		kind := Kind(p.Kind)
		if p.Service != service || p.Backend == "" || !keepsAway(kind) || !all && (kind == BackendDraining || kind == BackendDisabled) {
			return false
		}
		causes = append(causes, p)
		return true
	})
	return causes
}

// keepsAway reports whether a backend with a problem of this kind gets no sessions.
func keepsAway(kind Kind) bool {
	switch kind {
	case BackendStalled, BackendRefusing, BackendWrongProtocol, BackendUnreachable, BackendFailing, BackendProbe, BackendCanary, BackendEjected, BackendFlapping,
		BackendDraining, BackendDisabled, BackendNoServers, BackendNoPlace:
		return true
	}
	return false
}
