// Package config holds the desired state of the proxy: which services, backends and profiles there should be. A [Content]
// says so; a [Snapshot] is a content that was found valid, with a version, and never changes. [Diff] says in an operator's
// words what is different between two, and a [Store] keeps one where it can be changed while the proxy runs.
//
// This package does no I/O but for resolving secrets ([Resolve]), and knows nothing of pools or sessions: whoever runs the
// proxy loads a snapshot and makes it so. Names of fields are the names of the flags of `wsbouncer serve`.
package config

// Content is what a configuration says: entities by name. It is plain data that may be built and changed freely by whoever
// owns it; only [NewSnapshot] finds out whether it makes sense.
type Content struct {
	Services map[string]Service
	Backends map[string]Backend
	Profiles map[string]Profile
}

// NewContent returns an empty content.
func NewContent() Content {
	return Content{
		Services: make(map[string]Service),
		Backends: make(map[string]Backend),
		Profiles: make(map[string]Profile),
	}
}

// Clone returns a copy that shares nothing that can change.
func (c *Content) Clone() Content {
	to := NewContent()
	for _, t := range tables {
		t.clone(c, &to)
	}
	return to
}
