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
