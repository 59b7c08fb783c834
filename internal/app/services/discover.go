package services

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A backend with discover does not run itself: the plan has a backend for each discovered server, named BACKEND@ADDRESS:PORT. When an
// answer changes, the services make a new plan of the same snapshot, and put it in force like any other. So servers come and go as
// backends of the configuration do: those that go are drained, and get their pool back if they return before it is empty.

// finder returns the servers of a backend, or false as long as this question was not answered. It is [discovery.Discovery.Servers].
type finder func(backend string, q discovery.Question) ([]discovery.Server, bool)

// nothingFound is the finder of those who plan, but run nothing.
func nothingFound(string, discovery.Question) ([]discovery.Server, bool) { return nil, false }

// questionOf returns what is asked for a URL, which is valid for this value of discover.
func questionOf(target *handshake.Target, discover string) discovery.Question {
	host, port, _ := net.SplitHostPort(target.Address())
	n, _ := strconv.ParseUint(port, 10, 16) // a Target's port is one
	q := discovery.Question{Host: host, Port: uint16(n)}
	switch {
	case discover == config.DiscoverKubernetes:
		q.Service, q.Namespace, _ = config.KubernetesService(host)
	case config.IsServiceName(host):
		q.SRV, q.Port = true, 0
	}
	return q
}

// movesAway reports whether the sessions of a server that leaves should move to others: Kubernetes is about to end its pod, or the pod is not
// ready, and its backend stays. It is called with mu held.
func (s *Services) movesAway(v *service, m *member) bool {
	from := m.plan.from
	if from == nil || from.Discover != config.DiscoverKubernetes {
		return false
	}
	now := v.plan.declaredAs(from.name)
	if now == nil || now.question != from.question {
		return false
	}
	found, ok := s.discovery.Servers(now.name, now.question)
	return ok && !slices.ContainsFunc(found, func(server discovery.Server) bool { return server.Address == m.plan.found.Address })
}

// addServers adds the servers of the backends with discover. before is the plan in force.
//
// A server belongs to one backend at a time, so that its cap holds: to the one whose URL has its address, or otherwise to the first in
// the order of names.
func (p *plan) addServers(before *plan, find finder) {
	var names []*backendPlan
	for _, v := range p.services {
		for _, b := range v.declared {
			if b.Discovers() {
				names = append(names, b)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	owners := make(map[string]string)
	for _, v := range p.services {
		for _, b := range v.backends {
			owners[b.server] = b.name
		}
	}
	p.running, p.shared = make(map[string]int), make(map[string][]string)
	slices.SortFunc(names, func(a, b *backendPlan) int { return strings.Compare(a.name, b.name) })
	for _, name := range names {
		v := p.services[name.Service]
		old := before.services[name.Service]
		var all []*backendPlan
		found, ok := find(name.name, name.question)
		if !ok {
			found, ok = before.answered(name.question, find)
		}
		if ok {
			for _, server := range found {
				all = append(all, name.at(server, old))
			}
		} else {
			all = name.carryOver(v, old)
		}
		for _, b := range all {
			if owner, ok := owners[b.server]; ok {
				p.shared[name.name] = append(p.shared[name.name], fmt.Sprintf("%s: it belongs to the backend %s", b.target.Endpoint(b.target.Address()), owner))
				continue
			}
			owners[b.server] = b.name
			p.running[name.name]++
			v.add(b)
		}
	}
}

// answered returns the servers that a question has led to under any name of a backend: one that was renamed keeps its servers, and their
// pools.
func (p *plan) answered(q discovery.Question, find finder) ([]discovery.Server, bool) {
	for _, v := range p.services {
		for _, b := range v.declared {
			if !b.Discovers() || b.question != q {
				continue
			}
			if found, ok := find(b.name, q); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// at returns the plan for a server of the backend. It returns the old one if that is the same.
func (b *backendPlan) at(server discovery.Server, before *servicePlan) *backendPlan {
	name := b.name + "@" + server.Address.String()
	if old := before.member(name); old != nil && old.from == b && old.found == server && old.URL == b.URL {
		return old
	}
	planned := *b
	planned.name, planned.from, planned.found = name, b, server
	planned.server = config.ServerAt(b.URL, server.Address)
	planned.Weight *= server.Share
	planned.target = b.target.At(server.Address)
	return &planned
}

// carryOver returns plans for what the backend was before its URL or discover changed. That stays until there is an answer: a change must
// not leave the service without servers, least of all when the answer does not come.
func (b *backendPlan) carryOver(v, before *servicePlan) (all []*backendPlan) {
	if before == nil {
		return nil
	}
	for _, old := range before.backends {
		if old.declaredName() != b.name {
			continue
		}
		if old.from == b {
			all = append(all, old)
			continue
		}
		as := b.Backend
		as.URL, as.Discover = old.URL, ""
		planned, err := newBackendPlan(b.name, as, v, old)
		if err != nil { // the URL was valid before
			continue
		}
		if old.found.Address.IsValid() {
			planned = planned.at(old.found, nil)
		}
		planned.from = b
		all = append(all, planned)
	}
	return all
}

// watched returns what is to be asked, by backend.
func (p *plan) watched(pace time.Duration) map[string]discovery.Watched {
	all := make(map[string]discovery.Watched)
	for _, v := range p.services {
		for _, b := range v.declared {
			if !b.Discovers() {
				continue
			}
			interval := b.DiscoverInterval
			if pace > 0 {
				interval = pace
			}
			all[b.name] = discovery.Watched{Question: b.question, Interval: interval}
		}
	}
	return all
}

// found returns the servers, host:port, of each backend with discover that has some.
func (p *plan) found() map[string][]string {
	all := make(map[string][]string)
	for _, v := range p.services {
		for _, b := range v.backends {
			if b.from != nil {
				all[b.from.name] = append(all[b.from.name], b.target.Endpoint(b.target.Address()))
			}
		}
	}
	return all
}

// declaredName returns the name of the backend of the configuration that stands behind a backend that runs.
func (b *backendPlan) declaredName() string {
	if b.from != nil {
		return b.from.name
	}
	return b.name
}

// discoveredFrom returns the name of the backend of the configuration if that is another; otherwise empty.
func (b *backendPlan) discoveredFrom() string {
	if name := b.declaredName(); name != b.name {
		return name
	}
	return ""
}

// byName returns what server would be if the URL's host was not looked up; empty if it was not.
func (b *backendPlan) byName() string {
	if !b.found.Address.IsValid() {
		return ""
	}
	return config.ServerOf(b.URL)
}

// sharedPause is the least time between two log lines about the servers of one name that belong to others: answers may change each second.
const sharedPause = time.Minute

// sharedLine is a line of the log about such servers.
type sharedLine struct {
	at      time.Time
	servers []string
}

// logShared logs for which servers of a name another backend is in force, if that has changed since the log said so. It is called with mu
// held.
func (s *Services) logShared(now time.Time) {
	maps.DeleteFunc(s.sharedLines, func(name string, said sharedLine) bool {
		return len(s.desired.shared[name]) == 0 && now.Sub(said.at) >= sharedPause
	})
	for _, name := range slices.Sorted(maps.Keys(s.desired.shared)) {
		servers := s.desired.shared[name]
		said, known := s.sharedLines[name]
		if known && (now.Sub(said.at) < sharedPause || slices.Equal(servers, said.servers)) {
			continue
		}
		s.sharedLines[name] = sharedLine{now, servers}
		s.logLater("discovered servers belong to other backends", "backend", name, "servers", strings.Join(servers, ", "))
	}
}
