package services

import (
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// This file is where the fleet meets the pools: grants go in, and what the pools use and want goes out. Leasing to a client never asks for
// a grant; the agent (internal/fleet/agent) does so on its own goroutine, about once a second and whenever [Options.Demand] says so.

// SetGrants says how many connections to each server this proxy may have, by server as [config.ServerOf] names it; 0 for those that are
// missing. When it returns, nothing is dialed beyond the grants. Idle connections beyond them close soon, and those of sessions when their
// sessions have ended; Usage tells when. Nil is for a proxy that shares nothing: it may use the whole caps.
func (s *Services) SetGrants(grants map[string]int) {
	s.mu.Lock()
	defer s.unlock()
	s.grants = maps.Clone(grants)
	var staying []*member
	for key, all := range s.servers {
		for _, m := range all {
			switch {
			case m.server != key: // it is found under another key, too
			case s.stays(m):
				staying = append(staying, m)
			default: // it gets no more than it has, so that what those that stay may use is known
				book := m.Stats()
				m.grant = min(s.grants[m.server], book.Used()+m.taken)
				m.Set(s.sizes(m))
			}
		}
	}
	for _, m := range staying { // after the others, since what these may use is taken from them
		m.grant, m.taken = s.grants[m.server], s.takenFrom(m)
		m.Set(s.sizes(m))
	}
}

// Usage returns how the pools use each server of the configuration, and each at which connections of a removed backend are left, by server
// as [config.ServerOf] names it.
func (s *Services) Usage() map[string]fleet.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage()
}

// The functions below are called with Services.mu held.

// usage is Usage.
func (s *Services) usage() map[string]fleet.Usage {
	usage := make(map[string]fleet.Usage, len(s.servers))
	standby := make(map[*member]int)
	for _, v := range s.services {
		maps.Copy(standby, s.standby(v))
	}
	for key, all := range s.servers {
		for _, m := range all {
			if m.server == key {
				usage[key] = s.addUsage(usage[key], m, standby[m])
			}
		}
	}
	for _, v := range s.services {
		s.addWaiting(usage, v)
	}
	return usage
}

// stays reports whether the configuration in force has the backend.
func (s *Services) stays(m *member) bool {
	return s.desired != nil && s.desired.planFor(m) != nil && !slices.Contains(s.leaving, m)
}

// allowed returns how many connections to its server a backend may have, together with all others of this proxy.
func (s *Services) allowed(m *member) int {
	if s.grants == nil {
		return m.limit()
	}
	return min(m.limit(), m.grant)
}

// addUsage adds what a backend uses and wants, apart from places for clients that wait. standby is how many places it is to have for the
// sessions of other backends.
func (s *Services) addUsage(u fleet.Usage, m *member, standby int) fleet.Usage {
	book := m.Stats()
	sessions := book.Leased + book.Resetting
	u.Used += book.Used()
	u.Needs += sessions
	u.Wants += sessions
	if !s.stays(m) {
		if u.Cap == 0 {
			u.Cap = m.limit()
		}
		return u
	}
	if u.Cap = m.claimedCap(); m.plan.Auto() && book.Used() > 0 {
		u.Open = m.published.open
	}
	// Connections that were dialed by the name of several servers, before discover was set, may lead to this one.
	u.Used += s.takenByName(m)
	switch {
	case m.mode == pool.Enabled && !s.released:
		u.Wants += max(s.ahead(m, &book), standby)
	case m.mode == pool.Enabled:
		u.Wants += standby
	}
	return u
}

// ahead returns how many places an enabled backend wants for connections that no session uses yet.
func (s *Services) ahead(m *member, book *pool.Stats) (places int) {
	if !m.OnDemand() {
		places = book.Warm
	}
	if !book.Usable {
		places = max(places, 1) // for the connection that shows whether the server works again
	}
	if m.plan.canary != nil {
		places = max(places, 2) // a canary is played only if another place is left
	}
	return places
}

// addWaiting adds places for the clients who wait, and for those to whom places are promised, to what the servers of their service are to
// have.
func (s *Services) addWaiting(usage map[string]fleet.Usage, v *service) {
	queue := v.group.Queue()
	waiting, promised := queue.Waiting, v.group.Promised()
	if queue.Paused { // no place would help
		waiting = 0
	}
	var servers []candidate
	if waiting+promised > 0 {
		servers = s.candidates(usage, v)
	}
	if len(servers) > 0 {
		attribute(waiting, servers)
	}
	for i := range servers {
		u := usage[servers[i].server]
		u.Needs += servers[i].attributed
		u.Waiting += servers[i].attributed
		u.Wants += servers[i].attributed
		if servers[i].attributed > 0 {
			u.Waited = max(u.Waited, int(queue.OldestSeconds))
		}
		usage[servers[i].server] = u
		servers[i].attributed = 0
		servers[i].needs = u.Needs
	}
	if len(servers) > 0 && promised > 0 {
		attribute(promised, servers)
	}
	for i := range servers {
		u := usage[servers[i].server]
		u.Wants = max(u.Wants, u.Needs+servers[i].attributed)
		if waiting > 0 { // beside promised places, clients get only what is left
			u.Needs += servers[i].attributed
		}
		usage[servers[i].server] = u
	}
	for _, m := range v.members {
		if u, ok := usage[m.server]; ok {
			u.Wants = max(u.Needs, min(u.Wants, u.Cap))
			usage[m.server] = u
		}
	}
}

// candidates returns the servers at which clients of a service may get places, in the order of names.
func (s *Services) candidates(usage map[string]fleet.Usage, v *service) (all []candidate) {
	for _, m := range v.inOrder() {
		book := m.Stats()
		if m.mode != pool.Enabled || book.Weight == 0 || !s.stays(m) {
			continue
		}
		all = append(all, candidate{
			server: m.server, size: book.Ceiling, weight: book.Weight, limit: book.Limit, usable: book.Usable,
			needs: usage[m.server].Needs, others: s.othersClaim(m.server).Needs,
		})
	}
	return all
}
