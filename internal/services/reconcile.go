package services

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// The functions of this file are called with Services.mu held.

// reconcile makes what runs what is desired, as far as that can be at this moment, and returns whether something is left to do
// later. What comes is made before what goes.
func (s *Services) reconcile(now time.Time) (more bool) {
	if s.desired == nil {
		return len(s.leaving) > 0
	}
	for name, plan := range s.desired.services {
		v := s.services[name]
		if v == nil {
			v = s.newService(name, plan)
		}
		s.change(v, plan)
		for _, b := range plan.backends {
			s.bring(v, b, now)
		}
		more = s.release(v, now) || more
	}
	for name, v := range s.services {
		if _, ok := s.desired.services[name]; !ok {
			s.remove(v)
		}
	}
	s.share() // what some have left since
	if more = more || len(s.leaving) > 0; more {
		s.wake()
	}
	return more
}

func (s *Services) newService(name string, plan *servicePlan) *service {
	v := &service{
		name: name, atStart: !s.begun && plan.enabled(), plan: plan,
		variants: new(backend.Variants), peers: new(backend.Peers), dropped: session.NewDropped(name, s.o.Log),
		removed: make(chan struct{}), members: make(map[string]*member),
		group: pool.NewGroup[*backend.Conn](pool.Options{Balance: plan.balance, Queue: plan.Queue}),
	}
	s.services[name] = v
	if s.begun {
		s.say("service added", "service", name, "path", plan.Path, "host", plan.Host)
	}
	return v
}

// change makes of a service itself what is desired.
func (s *Services) change(v *service, plan *servicePlan) {
	if v.plan == plan {
		return
	}
	v.group.SetBalance(plan.balance)
	v.group.SetQueue(plan.Queue)
	v.plan = plan
}

// bring makes of a backend what is desired: one that runs is changed, another is begun. That it is to get no sessions any more
// is for release.
func (s *Services) bring(v *service, plan *backendPlan, now time.Time) {
	m := v.members[plan.name]
	if m != nil && m.server != plan.server { // another server of the same name
		s.leave(m)
		m = nil
	}
	if m == nil {
		m = s.find(v, plan)
	}
	switch {
	case m == nil:
		m = s.begin(v, plan, now)
	case m.plan != plan:
		// The cap is to hold from the first dial on. What it can have more is for share.
		m.taken = max(m.taken, s.takenFrom(m))
		renew := m.plan.dialsOtherwise(plan)
		m.plan = plan
		m.Update(s.options(v, m), renew)
	}
	v.members[plan.name] = m
	if plan.mode <= m.mode { // it may get at least what it got
		if plan.mode < m.mode && plan.mode == pool.Enabled {
			v.warm(m, now)
		}
		s.setMode(m, plan.mode)
	}
}

// find returns a backend of the service that leads to the same server under another name, or that was to leave.
func (s *Services) find(v *service, plan *backendPlan) *member {
	for _, m := range s.servers[plan.server] {
		if m.Group() != v.group {
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

// begin starts a backend. What the server still holds of others is taken from its cap before it dials.
func (s *Services) begin(v *service, plan *backendPlan, now time.Time) *member {
	m := &member{service: v.name, server: plan.server, atStart: !s.begun && plan.mode == pool.Enabled, plan: plan, mode: plan.mode}
	m.taken = s.takenFrom(m)
	if plan.mode == pool.Enabled {
		v.warm(m, now)
	}
	m.Backend = backend.New(s.options(v, m))
	s.servers[m.server] = append(s.servers[m.server], m)
	if s.begun { // otherwise it was there before the proxy
		s.say("backend added", "backend", plan.name, "service", v.name, "url", plan.target.URL, "state", plan.mode.String())
	}
	return m
}

// warm notes that a backend is on its way to its warm connections, and others of the service stay until it has them.
func (v *service) warm(m *member, now time.Time) {
	if len(v.members) > 0 {
		m.warming = now.Add(replacementTimeout)
	}
}

// release lets backends go that are to get no sessions any more, or none at all, and returns whether one waits for others to take
// its place.
func (s *Services) release(v *service, now time.Time) (waits bool) {
	comes := v.comes(now)
	for name, m := range v.members {
		plan := v.plan.member(name)
		switch {
		case plan != nil && plan.mode == m.mode:
		case comes && m.mode == pool.Enabled:
			waits = true
		case plan == nil:
			delete(v.members, name)
			s.leave(m)
		default:
			s.setMode(m, plan.mode)
		}
	}
	return waits
}

// comes tells whether a backend of the service is on its way to its warm connections.
func (v *service) comes(now time.Time) (comes bool) {
	for _, m := range v.members {
		if m.warming.IsZero() {
			continue
		}
		book, health := m.Stats(), m.Health()
		failing := !health.Reachable && book.Totals.DialFailed > 0
		if failing || !now.Before(m.warming) || m.mode != pool.Enabled || book.Idle >= min(book.Warm, book.Ceiling-book.Leased-book.Resetting) {
			m.warming = time.Time{}
			continue
		}
		comes = true
	}
	return comes
}

// remove takes a service away: clients that wait are turned away, and its backends leave.
func (s *Services) remove(v *service) {
	delete(s.services, v.name)
	close(v.removed)
	for _, m := range v.members {
		s.leave(m)
	}
	s.say("service removed", "service", v.name)
}

// leave takes a backend that is no member any more, or is to be replaced as one, out of the group. Its sessions go on.
func (s *Services) leave(m *member) {
	if v := s.services[m.service]; v != nil {
		v.noteServed(m)
	}
	m.mode = pool.Disabled
	m.Leave()
	s.leaving = append(s.leaving, m)
	book := m.Stats()
	s.say("removing backend, its sessions continue", "backend", m.Name(), "service", m.service, "sessions", book.Leased)
}

// share gives each backend that is to stay what others leave of its server's cap.
func (s *Services) share() {
	for _, v := range s.services {
		for _, m := range v.members {
			if taken := s.takenFrom(m); taken != m.taken && s.desired.of(m) != nil {
				m.taken = taken
				m.Set(m.sizes())
			}
		}
	}
}

// takenFrom returns how many connections of a backend's cap others have that lead to the same server: those that are leaving what
// they still hold, which cannot grow any more, and those that will leave what they hold or may take until then.
func (s *Services) takenFrom(m *member) (taken int) {
	for _, other := range s.servers[m.server] {
		if other == m || s.desired.of(other) != nil && !slices.Contains(s.leaving, other) {
			continue
		}
		book := other.Stats()
		used := book.Used()
		if book.State == pool.Enabled.String() { // the others cannot grow
			used = max(used, other.plan.Connections-other.taken)
		}
		taken += used
	}
	return taken
}

// setMode changes what a backend is to do. It is asked for again and again, and most often nothing is to be changed.
func (s *Services) setMode(m *member, mode pool.Mode) {
	if m.mode == mode {
		return
	}
	s.say("backend "+mode.String(), "backend", m.Name(), "before", m.mode.String())
	m.mode = mode
	m.SetMode(mode)
}
