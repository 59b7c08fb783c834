package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Kind is a kind of entity.
type Kind string

// The kinds of entities.
const (
	KindProfile Kind = "profile"
	KindService Kind = "service"
	KindBackend Kind = "backend"
	KindTenant  Kind = "tenant"
	KindKey     Kind = "key"
)

// Kinds returns all kinds. A kind comes after those that it refers to.
func Kinds() []Kind { return []Kind{KindProfile, KindService, KindBackend, KindTenant, KindKey} }

// order returns the kind's index in Kinds; unknown kinds come last.
func (k Kind) order() int {
	if i := slices.Index(Kinds(), k); i >= 0 {
		return i
	}
	return len(Kinds())
}

// Field describes one field of a kind of entity.
type Field struct {
	Name    string // also of its flag
	Help    string // one line
	Default string // canonical text
	Allowed string // what it may be, in words
	Type    string // as in the help of flags, see [value.Kind]
	IsMap   bool   // it holds texts by name: Name.KEY is one of them
	IsList  bool   // it holds several texts
	// Recorded tells that a command writes it, and people do not.
	Recorded bool
}

// field is a row of a table of fields: a field of one entity.
type field struct {
	name     string      // also of its flag
	standard string      // default; empty for the zero value
	help     string      // one line
	value    value.Value // reads, checks and writes the entity's field
}

// entity is a pointer to an entity of type E.
type entity[E any] interface {
	*E
	fields() []field
}

// withDefaults returns an entity whose fields all have their default.
func withDefaults[E any, P entity[E]]() (e E) {
	for _, f := range P(&e).fields() {
		if f.standard == "" {
			continue
		}
		if err := f.value.Set(f.standard); err != nil {
			panic(fmt.Sprintf("the default of %s: %v", f.name, err))
		}
	}
	return e
}

// Fields returns the fields of a kind of entity in the order in which they are shown; nil for an unknown kind.
func Fields(kind Kind) []Field { return tableOf(kind).fields() }

// Values are the fields of an entity as texts, by name. Fields that are missing have their default.
type Values map[string]string

// table is the same interface to the entities of each kind.
type table interface {
	fields() []Field
	names(*Content) []string
	clone(from, to *Content)
	has(c *Content, name string) bool
	get(c *Content, name string) Values
	set(c *Content, name string, values Values) Problems
	same(a, b *Content, name string) bool
	remove(c *Content, name string)
	check(c *Content, problems *Problems)
}

var tables = map[Kind]table{
	KindProfile: newTable(KindProfile, func(c *Content) map[string]Profile { return c.Profiles }),
	KindService: newTable(KindService, func(c *Content) map[string]Service { return c.Services }),
	KindBackend: newTable(KindBackend, func(c *Content) map[string]Backend { return c.Backends }),
	KindTenant:  newTable(KindTenant, func(c *Content) map[string]Tenant { return c.Tenants }),
	KindKey:     newTable(KindKey, func(c *Content) map[string]Key { return c.Keys }),
}

// tableOf returns the table of a kind; for an unknown one, a table without fields and entities.
func tableOf(kind Kind) table {
	if t, ok := tables[kind]; ok {
		return t
	}
	return &entities[Profile, *Profile]{kind: kind, all: func(*Content) map[string]Profile { return nil }}
}

// entities implements table for one kind.
type entities[E any, P entity[E]] struct {
	kind      Kind
	described []Field
	byName    map[string]int
	fresh     E // with all defaults
	all       func(*Content) map[string]E
}

func newTable[E any, P entity[E]](kind Kind, all func(*Content) map[string]E) *entities[E, P] {
	t := &entities[E, P]{kind: kind, byName: make(map[string]int), fresh: withDefaults[E, P](), all: all}
	e := t.fresh
	for i, f := range P(&e).fields() {
		t.byName[f.name] = i
		d := Field{Name: f.name, Help: f.help, Default: f.value.Text(), Allowed: f.value.Allowed(), Type: value.Kind(f.value), Recorded: f.name == verified || f.name == calibrated}
		d.IsMap, d.IsList = d.Type == value.KindMap, d.Type == value.KindList
		t.described = append(t.described, d)
	}
	return t
}

func (t *entities[E, P]) fields() []Field { return slices.Clone(t.described) }

func (t *entities[E, P]) names(c *Content) []string { return sortedKeys(t.all(c)) }

// clone copies all entities, with the slices and maps in them, which can change.
func (t *entities[E, P]) clone(from, to *Content) {
	for name, e := range t.all(from) {
		fields := reflect.ValueOf(&e).Elem()
		for i := range fields.NumField() {
			switch f := fields.Field(i); f.Kind() {
			case reflect.Slice:
				f.Set(reflect.AppendSlice(reflect.Zero(f.Type()), f))
			case reflect.Map:
				f.Set(cloneMap(f))
			}
		}
		t.all(to)[name] = e
	}
}

func cloneMap(from reflect.Value) reflect.Value {
	if from.IsNil() {
		return from
	}
	to := reflect.MakeMapWithSize(from.Type(), from.Len())
	for entries := from.MapRange(); entries.Next(); {
		to.SetMapIndex(entries.Key(), entries.Value())
	}
	return to
}

func (t *entities[E, P]) has(c *Content, name string) bool {
	_, ok := t.all(c)[name]
	return ok
}

// same reports whether an entity that both contents have is equal in both.
func (t *entities[E, P]) same(a, b *Content, name string) bool {
	return reflect.DeepEqual(t.all(a)[name], t.all(b)[name])
}

func (t *entities[E, P]) remove(c *Content, name string) { delete(t.all(c), name) }

// get returns the fields that differ from their defaults.
func (t *entities[E, P]) get(c *Content, name string) Values {
	e := t.all(c)[name]
	values := make(Values)
	for i, f := range P(&e).fields() {
		if text := f.value.Text(); text != t.described[i].Default {
			values[f.name] = text
		}
	}
	return values
}

// set sets the fields that values names, and creates the entity if there is none of that name. An empty text restores the default;
// "field.key" is one entry of a field that is a map, which an empty text removes.
func (t *entities[E, P]) set(c *Content, name string, values Values) (problems Problems) {
	e, ok := t.all(c)[name]
	if !ok {
		e = t.fresh
	}
	fields := P(&e).fields()
	for _, key := range sortedKeys(values) { // "labels" comes before "labels.zone"
		field, entry, isEntry := strings.Cut(key, ".")
		i, known := t.byName[field]
		if !known || isEntry && !t.described[i].IsMap {
			err, gone := RemovedFields(t.kind)[key]
			if !gone {
				err = spelling.Unknown("field", key, fieldNames(t.kind))
			}
			problems.add(t.kind, name, "", "%v", err)
			continue
		}
		v := fields[i].value
		text := values[key]
		switch {
		case isEntry:
			text = v.(value.Map).With(entry, text)
		case text == "":
			text = t.described[i].Default
		}
		if err := v.Set(text); err != nil {
			problems.add(t.kind, name, key, "%v", err)
		}
	}
	t.all(c)[name] = e
	return problems
}

// check validates each entity by itself.
func (t *entities[E, P]) check(c *Content, problems *Problems) {
	for _, name := range t.names(c) {
		if err := CheckName(name); err != nil {
			problems.add(t.kind, name, "", "%v", err)
		}
		e := t.all(c)[name]
		for _, f := range P(&e).fields() {
			if err := f.value.Set(f.value.Text()); err != nil { // checks, and e is a copy
				problems.add(t.kind, name, f.name, "%v", err)
			}
		}
	}
}

// fieldNames returns the names of a kind's fields.
func fieldNames(kind Kind) []string {
	var names []string
	for _, f := range Fields(kind) {
		names = append(names, f.Name)
	}
	return names
}

// fieldOrder returns a field's index among those of its kind; problems of a whole entity come first.
func fieldOrder(kind Kind, name string) int {
	field, _, _ := strings.Cut(name, ".")
	return slices.Index(fieldNames(kind), field)
}

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
