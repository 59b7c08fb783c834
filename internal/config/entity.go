package config

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Names returns the names of all entities of a kind, in order.
func (c *Content) Names(kind Kind) []string { return tableOf(kind).names(c) }

// Has reports whether there is an entity of that kind and name.
func (c *Content) Has(kind Kind, name string) bool { return tableOf(kind).has(c, name) }

// Values returns the fields of an entity that differ from their defaults. An entity that does not exist has none.
func (c *Content) Values(kind Kind, name string) Values {
	if t := tableOf(kind); t.has(c, name) {
		return t.get(c, name)
	}
	return Values{}
}

// Value returns one field of an entity, which may have its default.
func (c *Content) Value(kind Kind, name, field string) string {
	for _, f := range Fields(kind) {
		if f.Name == field {
			return c.Values(kind, name).or(f)
		}
	}
	return ""
}

// Set sets the fields that values names, and creates the entity if there is none of that name. An empty text restores the field's
// default; a name such as labels.zone is one entry of a field that is a map, which an empty text removes. Set returns what it cannot
// set, and sets the rest.
func (c *Content) Set(kind Kind, name string, values Values) Problems {
	t, ok := tables[kind]
	if !ok {
		return Problems{{Text: spelling.Unknown("kind of entity", string(kind), kindNames()).Error()}}
	}
	return t.set(c, name, values)
}

// Remove removes an entity, if there is one.
func (c *Content) Remove(kind Kind, name string) { tableOf(kind).remove(c, name) }

// Equal reports whether two contents are equal.
func (c *Content) Equal(other *Content) bool { return len(Diff(c, other)) == 0 }

func kindNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// CheckName checks the name of an entity, such as a service's.
func CheckName(name string) error {
	const most = 64
	plain := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	ok := name != "" && len(name) <= most && plain(name[0])
	for i := range len(name) {
		ok = ok && (plain(name[i]) || name[i] == '-' || name[i] == '_' || name[i] == '.')
	}
	if !ok {
		return fmt.Errorf("invalid name %q: use at most %d letters, digits and - _ . and begin with a letter or digit", name, most)
	}
	return nil
}
