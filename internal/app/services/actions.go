package services

import (
	"errors"
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// This file has what operators do to the running services beside the configuration. Nothing of it outlives the process. The errors are those that
// the admin API answers: an unknown name, or a state that does not allow what is asked.

// Pause makes new clients of a service wait in its queue, whatever is idle, until Resume. Running sessions continue; those that need another
// connection wait, too. It returns the service's queue at that moment. A pause lasts across changes of the configuration, until the
// service is removed, or the process ends or is taken over. It is an error if the service is paused already.
func (s *Services) Pause(name string) (pool.QueueStats, error) {
	v, err := s.service(name)
	if err != nil {
		return pool.QueueStats{}, err
	}
	if !v.group.Pause() {
		return pool.QueueStats{}, admin.WrongState("service %s is paused already", name)
	}
	return v.group.Queue(), nil
}

// Resume ends a pause. It returns the service's queue before that. It is an error if the service is not paused.
func (s *Services) Resume(name string) (before pool.QueueStats, err error) {
	v, err := s.service(name)
	if err != nil {
		return before, err
	}
	before = v.group.Queue()
	if !v.group.Resume() {
		return before, admin.WrongState("service %s is not paused", name)
	}
	return before, nil
}

// Recycle has all present connections of a backend replaced by new ones as they come free, see [backend.Backend.Recycle]. It returns
// how many there are. The name of a backend with discover means all its servers. It is an error if the
// backend is being removed, or has no server yet.
func (s *Services) Recycle(name string) (connections int, err error) {
	all, err := s.backends(name)
	if err != nil {
		return 0, err
	}
	for _, m := range all {
		connections += m.Recycle()
	}
	return connections, nil
}

// HasBackend returns an error unless there is a backend of that name. One that was removed counts while it has connections.
func (s *Services) HasBackend(name string) error {
	_, err := s.backends(name)
	if failure, ok := errors.AsType[*admin.Error](err); ok && failure.Kind == api.KindUnknown {
		return err
	}
	return nil
}

// Backend returns the backend of that name, which is one server: of a backend with discover, one that was found.
func (s *Services) Backend(name string) (*backend.Backend, error) {
	all, err := s.backends(name)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, admin.WrongState("backend %s stands for %d servers: name one of them, such as %s", name, len(all), all[0].Name())
	}
	return all[0].Backend, nil
}

// service returns the service of that name. Its group and channels may be used without Services.mu.
func (s *Services) service(name string) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.services[name]; v != nil {
		return v, nil
	}
	return nil, admin.Unknown("service", name, slices.Sorted(maps.Keys(s.services)))
}

// backends returns the backend of that name, or the servers of a backend with discover. Their Backend may be used without Services.mu.
func (s *Services) backends(name string) (all []*member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var known []string
	for _, v := range s.services {
		if m := v.members[name]; m != nil {
			return []*member{m}, nil
		}
		known = slices.AppendSeq(known, maps.Keys(v.members))
		for _, b := range v.plan.declared {
			if !b.Discovers() {
				continue
			}
			if known = append(known, b.name); b.name == name {
				return s.serversOf(v, b)
			}
		}
	}
	for _, m := range s.leaving {
		if m.Name() == name {
			return nil, admin.WrongState("backend %s was removed: its connections close when their sessions end", name)
		}
	}
	slices.Sort(known)
	return nil, admin.Unknown("backend", name, slices.Compact(known))
}

// serversOf returns the servers of a backend with discover. It is called with mu held.
func (s *Services) serversOf(v *service, b *backendPlan) (all []*member, err error) {
	for _, m := range v.inOrder() {
		if m.plan.declaredName() == b.name {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil, admin.WrongState("backend %s has no servers: 'wsbouncer status' shows what the lookup of %s found", b.name, b.question.Host)
	}
	return all, nil
}
