package config

import "iter"

// Snapshot is one immutable, versioned, valid configuration. It may be shared by any number of goroutines. What its methods
// return must not be changed, maps and slices in it included; Content returns a copy to change.
type Snapshot struct {
	version string
	content Content
	members map[string][]string // names of backends by service, in order
}

// NewSnapshot validates a content and returns a snapshot of a copy of it; the error is [Problems]. The version is the store's name for
// this content: equal versions in one store mean equal contents.
func NewSnapshot(version string, content *Content, check ProfileCheck) (*Snapshot, error) {
	if err := content.Validate(check); err != nil {
		return nil, err
	}
	return newSnapshot(version, content), nil
}

func newSnapshot(version string, content *Content) *Snapshot {
	s := &Snapshot{version: version, content: content.Clone(), members: make(map[string][]string)}
	for _, name := range sortedKeys(s.content.Backends) {
		service := s.content.Backends[name].Service
		s.members[service] = append(s.members[service], name)
	}
	return s
}

// Version returns the store's name for this content. It does not tell which of two snapshots is newer.
func (s *Snapshot) Version() string { return s.version }

// Content returns a copy of the snapshot's content.
func (s *Snapshot) Content() Content { return s.content.Clone() }

// Diff returns the edits that lead from this snapshot to a later one.
func (s *Snapshot) Diff(later *Snapshot) Edits { return Diff(&s.content, &later.content) }

// Service returns the service of that name.
func (s *Snapshot) Service(name string) (Service, bool) {
	service, ok := s.content.Services[name]
	return service, ok
}

// Backend returns the backend of that name.
func (s *Snapshot) Backend(name string) (Backend, bool) {
	backend, ok := s.content.Backends[name]
	return backend, ok
}

// Profile returns the user's profile of that name. A snapshot has no built-in profiles.
func (s *Snapshot) Profile(name string) (Profile, bool) {
	p, ok := s.content.Profiles[name]
	return p, ok
}

// Tenant returns the tenant of that name.
func (s *Snapshot) Tenant(name string) (Tenant, bool) {
	t, ok := s.content.Tenants[name]
	return t, ok
}

// ProfilesYAML returns all users' profiles as one YAML document; nil if there are none.
func (s *Snapshot) ProfilesYAML() []byte { return s.content.ProfilesYAML() }

// Services returns all services by name, in order.
func (s *Snapshot) Services() iter.Seq2[string, Service] { return inOrder(s.content.Services) }

// Backends returns all backends by name, in order.
func (s *Snapshot) Backends() iter.Seq2[string, Backend] { return inOrder(s.content.Backends) }

// Tenants returns all tenants by name, in order.
func (s *Snapshot) Tenants() iter.Seq2[string, Tenant] { return inOrder(s.content.Tenants) }

// Keys returns all keys by name, in order.
func (s *Snapshot) Keys() iter.Seq2[string, Key] { return inOrder(s.content.Keys) }

// Members returns the backends of a service by name, in order.
func (s *Snapshot) Members(service string) iter.Seq2[string, Backend] {
	return byName(s.members[service], s.content.Backends)
}

func inOrder[E any](entities map[string]E) iter.Seq2[string, E] {
	return byName(sortedKeys(entities), entities)
}

// byName yields the entities with these names.
func byName[E any](names []string, entities map[string]E) iter.Seq2[string, E] {
	return func(yield func(string, E) bool) {
		for _, name := range names {
			if !yield(name, entities[name]) {
				return
			}
		}
	}
}
