// Package config holds the desired state of the proxy: its services, backends, profiles, tenants and keys. A [Content] is that state; a [Snapshot] is
// a valid content with a version, and never changes. [Diff] describes the differences between two contents for operators, and a
// [Store] keeps a content that can be changed while the proxy runs.
//
// This package does no I/O except to resolve secrets ([Resolve]), and knows nothing of pools or sessions: the proxy loads a snapshot
// and applies it. A field has the same name here, as a flag, in files and in the admin API.
package config

// Content is a configuration: entities by name. It is plain data that its owner may change freely; [NewSnapshot] validates it.
type Content struct {
	Services map[string]Service
	Backends map[string]Backend
	Profiles map[string]Profile
	Tenants  map[string]Tenant
	Keys     map[string]Key
}

// NewContent returns an empty content.
func NewContent() Content {
	return Content{
		Services: make(map[string]Service),
		Backends: make(map[string]Backend),
		Profiles: make(map[string]Profile),
		Tenants:  make(map[string]Tenant),
		Keys:     make(map[string]Key),
	}
}

// Clone returns a deep copy.
func (c *Content) Clone() Content {
	to := NewContent()
	for _, t := range tables {
		t.clone(c, &to)
	}
	return to
}
