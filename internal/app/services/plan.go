package services

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// plan is a snapshot turned into the objects that services run with. It is immutable. What has not changed since the plan before is
// the same object, so that comparing plans is cheap.
type plan struct {
	snapshot *config.Snapshot
	profiles map[string]*profile.Profile // written by users
	services map[string]*servicePlan
	byURL    map[string]*backendPlan         // of the configuration's backends, one for each URL
	tenants  map[string]*pool.TenantSettings // see tenantsOf
	running  map[string]int                  // by backend with discover: how many servers it stands for
	shared   map[string][]string             // by backend with discover: its servers that belong to other backends, with the reason
}

// servicePlan is the plan of one service.
type servicePlan struct {
	config.Service
	profile *profile.Profile
	balance pool.Balance
	hashBy  route.HashBy
	passing *profile.HandshakePolicy
	// What the service tells its servers itself, and whether any of it differs by client.
	setHeaders, setQuery []profile.SetPart
	setsByClient         bool

	canary canary

	declared []*backendPlan          // the backends of the configuration
	backends []*backendPlan          // those that run: instead of one with discover, its servers
	byName   map[string]*backendPlan // those that run
}

// backendPlan is the plan of one backend, with the settings of its service.
type backendPlan struct {
	config.Backend
	name    string
	server  string
	service config.Service
	profile *profile.Profile
	target  *handshake.Target
	mode    pool.Mode
	canary  *backend.Canary // nil for none
	ahead   bool            // its warm connections are dialed before clients arrive

	setsByClient bool // its service tells it something that differs by client

	question discovery.Question // for one with discover: what is asked
	// For a discovered server: the backend of the configuration, and what was found. Nil for all others.
	from  *backendPlan
	found discovery.Server
}

// Draft is the plan for a snapshot by itself, for who asks what it means on this machine and runs nothing. It is immutable.
type Draft struct{ *plan }

// NewDraft returns the plan for a valid snapshot, or [config.Problems] if it cannot be put in force. A canary that cannot be used is none: see
// [Draft.Check].
func NewDraft(snapshot *config.Snapshot) (Draft, error) {
	p, err := newPlan(snapshot, nil, nothingFound)
	return Draft{p}, err
}

// Snapshot returns what the plan is for.
func (d Draft) Snapshot() *config.Snapshot { return d.snapshot }

// Check returns, as [config.Problems], what is wrong with the canaries; nil if nothing is.
func (d Draft) Check() error { return d.canaryProblems() }

// newPlan returns the plan for a snapshot, or [config.Problems] if there is none. before is the plan in force, or nil. find knows the
// servers of backends with discover.
func newPlan(snapshot *config.Snapshot, before *plan, find finder) (*plan, error) {
	if before == nil {
		before = new(plan)
	}
	p := &plan{snapshot: snapshot, services: make(map[string]*servicePlan), byURL: make(map[string]*backendPlan), tenants: tenantsOf(snapshot)}
	var problems config.Problems
	if err := p.readProfiles(before); err != nil {
		return nil, err
	}
	for name, service := range snapshot.Services() {
		planned, found := p.planService(name, service, before)
		problems = append(problems, found...)
		p.services[name] = planned
	}
	if len(problems) > 0 {
		return nil, problems
	}
	p.addServers(before, find)
	return p, nil
}

// readProfiles reads the profiles that users wrote. It keeps the object of a profile that has not changed.
func (p *plan) readProfiles(before *plan) error {
	p.profiles = make(map[string]*profile.Profile)
	text := p.snapshot.ProfilesYAML()
	if text == nil {
		return nil
	}
	list, err := profile.Parse("profiles", text)
	if err != nil {
		return err
	}
	for _, own := range list {
		if old := before.profiles[own.Name]; old != nil && string(old.YAML()) == string(own.YAML()) {
			own = old
		}
		p.profiles[own.Name] = own
	}
	return nil
}

// profile returns the profile of that name, or nil.
func (p *plan) profile(name string) *profile.Profile {
	if own := p.profiles[name]; own != nil {
		return own
	}
	builtIn, _ := profile.Named(name)
	return builtIn
}

func (p *plan) planService(name string, settings config.Service, before *plan) (*servicePlan, config.Problems) {
	bad := func(field string, err error) config.Problems {
		return config.Problems{{Kind: config.KindService, Name: name, Field: field, Text: err.Error()}}
	}
	v := &servicePlan{Service: settings, profile: p.profile(settings.Profile), byName: make(map[string]*backendPlan)}
	if v.profile == nil {
		return nil, bad("profile", fmt.Errorf("unknown profile %q", settings.Profile))
	}
	var err error
	balance, header, query := config.BalanceParts(settings.Balance)
	if v.balance, err = pool.ParseBalance(balance); err != nil {
		return nil, bad("balance", err)
	}
	v.hashBy = route.HashBy{Header: header, Query: query}
	pass, err := profile.ParsePass(settings.Pass)
	if err != nil {
		return nil, bad("pass", err)
	}
	if field, err := v.readSets(); err != nil {
		return nil, bad(field, err)
	}
	old := before.services[name]
	v.readCanary(old)
	same := old != nil && equal(old.Service, settings) && old.profile == v.profile && old.canary.same(&v.canary)
	var problems config.Problems
	for member, b := range p.snapshot.Members(name) {
		planned := old.declaredAs(member)
		if !same || planned == nil || !equal(planned.Backend, b) {
			former := planned
			if former == nil || former.URL != b.URL { // it may have had another name, or belonged to another service
				former = cmp.Or(before.byURL[b.URL], former)
			}
			if planned, err = newBackendPlan(member, b, v, former); err != nil {
				problems = append(problems, config.Problem{Kind: config.KindBackend, Name: member, Field: "url", Text: err.Error()})
				continue
			}
		}
		v.declared = append(v.declared, planned)
		p.byURL[b.URL] = planned
		if !b.Discovers() {
			v.add(planned)
		}
	}
	v.passing = v.passes(pass)
	return v, problems
}

// newBackendPlan returns the plan for a backend of the configuration. before is what it was; nil for a new one.
func newBackendPlan(name string, b config.Backend, v *servicePlan, before *backendPlan) (*backendPlan, error) {
	planned := &backendPlan{Backend: b, name: name, server: config.ServerOf(b.URL), service: v.Service, profile: v.profile, canary: v.canary.play}
	var err error
	if planned.target, err = handshake.ParseTarget(b.URL); err != nil {
		return nil, err
	}
	configureTarget(planned.target, &planned.Backend)
	if before != nil {
		planned.target.TakeOver(before.target, maps.Equal(b.Headers, before.Headers))
	}
	planned.target.UserTimeout = userTimeout(&v.Service)
	planned.target.Protocol = v.Subprotocol
	if planned.target.Protocol == "" {
		planned.target.Protocol, planned.target.Lookalike = v.profile.Subprotocol, v.profile.Lookalike
	}
	planned.ahead = planned.DialsAhead(v.profile) && !v.setsByClient // or no client could use them
	planned.setsByClient = v.setsByClient
	v.setFixed(planned.target)
	if planned.mode, err = pool.ParseMode(b.State); err != nil {
		return nil, err
	}
	if b.Discovers() {
		planned.question = questionOf(planned.target, b.Discover)
	}
	return planned, nil
}

// add adds a backend that runs.
func (v *servicePlan) add(b *backendPlan) {
	v.backends = append(v.backends, b)
	v.byName[b.name] = b
}

// declaredAs returns the plan for a backend of the configuration; nil if there is none.
func (v *servicePlan) declaredAs(name string) *backendPlan {
	if v == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(v.declared, name, func(b *backendPlan, name string) int { return strings.Compare(b.name, name) })
	if !ok {
		return nil
	}
	return v.declared[i]
}

// member returns the plan for a backend that runs; nil if there is none.
func (v *servicePlan) member(name string) *backendPlan {
	if v == nil {
		return nil
	}
	return v.byName[name]
}

// enabled reports whether a backend of the service is enabled.
func (v *servicePlan) enabled() bool {
	return slices.ContainsFunc(v.declared, func(b *backendPlan) bool { return b.mode == pool.Enabled })
}

// planFor returns the plan for a running backend; nil if it is to be removed.
func (p *plan) planFor(m *member) *backendPlan {
	planned := p.services[m.service].member(m.plan.name)
	if planned == nil || planned.server != m.server {
		return nil
	}
	return planned
}

// needsRedial reports whether another plan needs new connections, since servers are told something else in the handshake or the
// connections are used with another profile.
func (b *backendPlan) needsRedial(next *backendPlan) bool {
	return b.profile != next.profile || b.target.Protocol != next.target.Protocol ||
		b.URL != next.URL || !b.sameHandshake(next) ||
		!maps.Equal(b.service.SetHeader, next.service.SetHeader) || !maps.Equal(b.service.SetQuery, next.service.SetQuery)
}

// userTimeout returns how long a server's system may acknowledge nothing (TCP_USER_TIMEOUT): as long as a ping takes to find that the server
// is gone. Without pings it is as long as with the defaults.
func userTimeout(s *config.Service) time.Duration {
	if s.PingInterval == 0 {
		standard := config.DefaultService()
		s = &standard
	}
	return s.PingInterval + s.PingTimeout
}
