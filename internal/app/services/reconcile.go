package services

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// The functions of this file are called with Services.mu held.

// reconcile brings what runs as close to the desired state as is possible at this moment, and returns whether something is left to
// do later. It starts new backends before it removes old ones.
func (s *Services) reconcile(now time.Time) (more bool) {
	if s.desired == nil {
		return len(s.leaving) > 0
	}
	for name, plan := range s.desired.services {
		v := s.services[name]
		if v == nil {
			v = s.newService(name, plan)
		}
		if s.applyAuth(v, &plan.Service) {
			s.authChanged = true
		}
		s.applyService(v, plan)
		v.applyTenants(s.desired.tenantsAt(name))
		for _, b := range plan.backends {
			s.applyBackend(v, b, now)
		}
		more = s.releaseBackends(v, now) || more
	}
	for name, v := range s.services {
		if _, ok := s.desired.services[name]; !ok {
			s.removeService(v)
		}
	}
	s.shareCaps() // caps that leaving backends have freed
	if more = more || len(s.leaving) > 0; more {
		s.wake()
	}
	return more
}

func (s *Services) newService(name string, plan *servicePlan) *service {
	v := &service{
		name: name, atStart: !s.begun && plan.enabled(), plan: plan, hadReconnect: plan.Reconnect > 0,
		variants: new(backend.Variants), peers: new(backend.Peers), dropped: route.NewDropped(name, s.o.Log), scopes: limits.NewService(name),
		affinity: route.NewAffinity(),
		removed:  make(chan struct{}), members: make(map[string]*member),
		group: pool.NewGroup[*backend.Conn](pool.Options{Balance: plan.balance, Queue: plan.Queue, Demand: s.o.Demand}),
	}
	s.services[name] = v
	if s.begun {
		s.logLater("service added", "service", name, "path", plan.Path, "host", plan.Host)
	}
	return v
}

// applyService applies the service's own settings.
func (s *Services) applyService(v *service, plan *servicePlan) {
	if v.plan == plan {
		return
	}
	v.group.SetBalance(plan.balance)
	v.group.SetQueue(plan.Queue)
	v.plan, v.hadReconnect = plan, v.hadReconnect || plan.Reconnect > 0
}

// applyBackend updates a running backend or starts a new one. releaseBackends takes sessions away from backends.
func (s *Services) applyBackend(v *service, plan *backendPlan, now time.Time) {
	m := v.members[plan.name]
	if m != nil && m.server != plan.server { // the name now stands for another server
		s.removeBackend(m)
		m = nil
	}
	if m == nil {
		m = s.runningBackend(v, plan)
	}
	switch {
	case m == nil:
		m = s.startBackend(v, plan, now)
	case m.plan != plan:
		// The cap must hold from the first dial on; shareCaps raises it when others have left.
		m.taken, m.grant = max(m.taken, s.takenFrom(m)), s.grants[m.server]
		renew := m.plan.needsRedial(plan)
		before := m.meter
		if m.plan.name != plan.name {
			m.meter = s.o.Meters.Backend(v.name, plan.name)
		}
		if m.plan.profile != plan.profile { // it may be published elsewhere
			m.published = published{}
		}
		m.plan = plan
		s.setName(m, plan.byName())
		m.Update(s.options(v, m), renew)
		if m.meter != before {
			before.Release()
		}
	}
	v.members[plan.name] = m
	if plan.mode <= m.mode { // it may do at least what it did
		if plan.mode < m.mode && plan.mode == pool.Enabled {
			v.startWarming(m, now)
		}
		s.setMode(m, plan.mode)
	}
}

// runningBackend returns a backend of the service that has the same server under another name, or that is leaving; nil if there
// is none.
func (s *Services) runningBackend(v *service, plan *backendPlan) *member {
	for _, m := range s.servers[plan.server] {
		if m.Group() != v.group || m.server != plan.server {
			continue
		}
		if v.members[m.plan.name] == m {
			delete(v.members, m.plan.name)
			return m
		}
		if i := slices.Index(s.leaving, m); i >= 0 {
			s.leaving = slices.Delete(s.leaving, i, i+1)
			m.Restore()
			return m
		}
	}
	return nil
}

// startBackend starts a backend. Connections that other backends still have to the server reduce its cap before it dials.
func (s *Services) startBackend(v *service, plan *backendPlan, now time.Time) *member {
	m := &member{service: v.name, server: plan.server, byName: plan.byName(), plan: plan, mode: plan.mode}
	m.atStart = plan.mode == pool.Enabled && (!s.begun || !s.started && v.atStart && plan.from != nil) // servers are discovered later
	m.grant = s.grants[m.server]
	m.taken, m.meter = s.takenFrom(m), s.o.Meters.Backend(v.name, plan.name)
	if plan.mode == pool.Enabled {
		v.startWarming(m, now)
	}
	m.Backend = backend.New(s.options(v, m))
	for _, key := range m.keys() {
		s.servers[key] = append(s.servers[key], m)
	}
	if s.begun { // the first snapshot logs no additions
		s.logLater("backend added", "backend", plan.name, "service", v.name, "url", plan.target.URL, "state", plan.mode.String())
	}
	return m
}

// startWarming makes the service's other backends wait until this one has its warm connections.
func (v *service) startWarming(m *member, now time.Time) {
	if len(v.members) > 0 {
		m.warming = now.Add(replacementTimeout)
	}
}

// releaseBackends removes, drains and disables backends, and returns whether one still waits for its replacement to warm up.
func (s *Services) releaseBackends(v *service, now time.Time) (waits bool) {
	warming := v.isWarming(now)
	for name, m := range v.members {
		plan := v.plan.member(name)
		switch {
		case plan != nil && plan.mode == m.mode:
			m.leaves = time.Time{}
		case warming && s.mayWait(v, m, now):
			waits = true
		case plan == nil:
			delete(v.members, name)
			s.removeBackend(m)
		default:
			s.setMode(m, plan.mode)
		}
	}
	return waits
}

// mayWait reports whether a backend that is to leave may keep its clients for a while. It has as much time as one replacement: others may begin
// to warm up again and again.
func (s *Services) mayWait(v *service, m *member, now time.Time) bool {
	if m.mode != pool.Enabled || s.movesAway(v, m) { // its pod may end any moment
		return false
	}
	if m.leaves.IsZero() {
		m.leaves = now.Add(replacementTimeout)
	}
	return now.Before(m.leaves)
}

// isWarming reports whether a backend of the service that is to stay is still getting its warm connections.
func (v *service) isWarming(now time.Time) (warming bool) {
	for name, m := range v.members {
		if plan := v.plan.member(name); m.warming.IsZero() || plan == nil || plan.mode != pool.Enabled {
			continue
		}
		book, health := m.Stats(), m.Health()
		failing := !health.Reachable && book.Totals.DialFailed > 0
		awaitsGrant := book.Shared && book.Grant == 0 && book.Ceiling > 0
		if failing || !now.Before(m.warming) ||
			!awaitsGrant && book.Idle >= min(book.Warm, book.Limit-book.Leased-book.Resetting) {
			m.warming = time.Time{}
			continue
		}
		warming = true
	}
	return warming
}

// removeService removes a service: its waiting clients are refused and its backends are removed.
func (s *Services) removeService(v *service) {
	delete(s.services, v.name)
	close(v.removed)
	if v.checker != nil {
		v.checker.Close()
	}
	for _, m := range v.members {
		s.removeBackend(m)
	}
	s.logLater("service removed", "service", v.name)
}

// removeBackend takes a backend out of its group. Its sessions continue, there or, if its pod is about to end, at others.
func (s *Services) removeBackend(m *member) {
	moves := false
	if v := s.services[m.service]; v != nil {
		v.noteServed(m)
		moves = s.o.MoveAway != nil && s.movesAway(v, m)
	}
	m.mode = pool.Disabled
	m.Leave()
	s.leaving = append(s.leaving, m)
	book := m.Stats()
	m.told.Store(false) // it may have left before
	s.pendingLogs = append(s.pendingLogs, func() {
		s.o.Log.Info("removing backend, its sessions continue", "backend", m.Name(), "service", m.service, "sessions", book.Leased)
		m.told.Store(true)
		if moves && book.Leased > 0 {
			s.o.MoveAway(m.Backend)
		}
	})
}

// shareCaps gives each backend that stays the part of its server's cap that other backends do not use.
func (s *Services) shareCaps() {
	for _, v := range s.services {
		for _, m := range v.members {
			if taken := s.takenFrom(m); taken != m.taken && s.desired.planFor(m) != nil {
				m.taken = taken
				m.Set(s.sizes(m))
			}
		}
	}
}

// takenFrom returns how many connections of a backend's cap belong to other backends with the same server. A leaving backend counts
// with the connections that it still has, since it cannot grow; one that will be removed counts with all that it may still take.
//
// After discover was set or removed, connections that were dialed by name may lead to any server of that name.
func (s *Services) takenFrom(m *member) (taken int) {
	for _, other := range s.servers[m.server] {
		if other.server == m.server {
			taken += s.takenBy(other, m)
		}
	}
	return taken + s.takenByName(m)
}

// takenByName is takenFrom for the connections that may lead to another server instead.
func (s *Services) takenByName(m *member) (taken int) {
	atMost := 0 // that any one of the servers of this name has
	for _, other := range s.servers[m.server] {
		if other.server != m.server {
			atMost = max(atMost, s.takenBy(other, m))
		}
	}
	for _, other := range s.servers[m.byName] {
		if other.server == m.byName {
			taken += s.takenBy(other, m)
		}
	}
	return taken + atMost
}

// takenBy is takenFrom for one other backend.
func (s *Services) takenBy(other, m *member) int {
	if other == m || s.desired.planFor(other) != nil && !slices.Contains(s.leaving, other) {
		return 0
	}
	book := other.Stats()
	used := book.Used()
	if book.State == pool.Enabled.String() { // the others cannot grow
		used = max(used, s.allowed(other)-other.taken)
	}
	return used
}

// keys returns the keys of Services.servers under which the backend is found: its server, and the name that DNS knows it by.
func (m *member) keys() []string {
	if m.byName == "" {
		return []string{m.server}
	}
	return []string{m.server, m.byName}
}

// setName notes the name by which DNS knows the server of a backend, also for one that was configured by its address before. If there is
// none now, the last one stays: what is dialed by that name may still lead to this server.
func (s *Services) setName(m *member, byName string) {
	if byName == "" || byName == m.byName {
		return
	}
	s.forget(m.byName, m)
	m.byName = byName
	s.servers[byName] = append(s.servers[byName], m)
}

// forget removes a backend from those found under a key of Services.servers, if it is one of them.
func (s *Services) forget(key string, m *member) {
	others := slices.DeleteFunc(s.servers[key], func(other *member) bool { return other == m })
	if s.servers[key] = others; len(others) == 0 {
		delete(s.servers, key)
	}
}

// setMode changes a backend's mode. It is called again and again, most often with nothing to change.
func (s *Services) setMode(m *member, mode pool.Mode) {
	if m.mode == mode {
		return
	}
	s.logLater("backend "+mode.String(), "backend", m.Name(), "before", m.mode.String())
	m.mode = mode
	m.SetMode(mode)
}
