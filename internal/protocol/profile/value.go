package profile

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// Each mapping in a profile's YAML has one list of fields, which reads it and prints it. The lists are in the order of the documentation.

// field is a key of a mapping, and the value that it has in one profile.
type field struct {
	name string
	value
}

// value is bound to the variable that holds what a key says.
type value struct {
	// read sets the variable. path is the path of the key, for the places in reader.own.
	read func(r *reader, path string, n *strictyaml.Node)
	// print returns what the variable holds; nil for nothing.
	print func() *yaml.Node
	clear func() // sets the variable to its zero value, for orNone

	needed bool // an entry of a list must have it
	shown  bool // it is printed even if it is what holds without the key
	hidden bool // no error names it
}

func (v value) need() value { v.needed, v.shown = true, true; return v }

func (v value) show(shown bool) value { v.shown = shown; return v }

// orNone lets the word none clear the variable.
func (v value) orNone() value {
	read := v.read
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		if v.clear(); !isNone(n) {
			read(r, path, n)
		}
	}
	return v
}

// check lets a function report what is wrong with the variable once it is set.
func (v value) check(check func(r *reader, n *strictyaml.Node)) value {
	read := v.read
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		read(r, path, n)
		check(r, n)
	}
	return v
}

// inline prints a mapping in one line.
func (v value) inline() value {
	print := v.print
	v.print = func() *yaml.Node {
		n := print()
		if n != nil {
			n.Style = yaml.FlowStyle
		}
		return n
	}
	return v
}

// bind returns the value of a variable that parse reads. parse returns false if it has reported a problem.
func bind[T any](to *T, parse func(*reader, *strictyaml.Node) (T, bool), print func(T) *yaml.Node) value {
	return value{
		read: func(r *reader, _ string, n *strictyaml.Node) {
			if v, ok := parse(r, n); ok {
				*to = v
			}
		},
		print: func() *yaml.Node { return print(*to) },
		clear: func() { *to = *new(T) },
	}
}

func textAt(to *string) value { return bind(to, (*reader).text, quote) }

func durationAt(to *time.Duration) value {
	return bind(to, (*reader).duration, func(d time.Duration) *yaml.Node { return word(durationText(d)) })
}

func booleanAt(to *bool) value {
	return bind(to, (*reader).boolean, func(v bool) *yaml.Node { return word(strconv.FormatBool(v)) })
}

func numberAt[T int | int64](to *T, low, high int64) value {
	return bind(to, func(r *reader, n *strictyaml.Node) (T, bool) {
		v, ok := r.number(n, low, high)
		return T(v), ok
	}, numberYAML)
}

// sizeAt is for a number of bytes, from 1.
func sizeAt(to *int, high int64) value {
	return bind(to, func(r *reader, n *strictyaml.Node) (int, bool) { return r.size(n, 1, high) }, numberYAML)
}

// wordAt is for the index of one of some words.
func wordAt[T ~int | ~uint8](to *T, words []string) value {
	return bind(to, func(r *reader, n *strictyaml.Node) (T, bool) {
		i, ok := r.word(n, words...)
		return T(i), ok
	}, func(v T) *yaml.Node { return word(words[v]) })
}

// choiceAt is for one of two words.
func choiceAt(to *bool, no, yes string) value {
	words := []string{no, yes}
	return bind(to, func(r *reader, n *strictyaml.Node) (bool, bool) {
		i, ok := r.word(n, words...)
		return i == 1, ok
	}, func(v bool) *yaml.Node {
		if v {
			return word(yes)
		}
		return word(no)
	})
}

// pathAt is for a path into a message, which parse reads.
func pathAt(to *jsonPath, parse func(string) (jsonPath, error)) value {
	return bind(to, func(r *reader, n *strictyaml.Node) (jsonPath, bool) { return r.path(n, parse) }, jsonPath.yaml)
}

func messagesAt(to *[]Message) value {
	return bind(to, func(r *reader, n *strictyaml.Node) ([]Message, bool) { return r.messages(n), true }, messagesYAML)
}

// matchersAt is for matchers with these keys; for those of messages if there are none.
func matchersAt(to *[]matcher, keys ...string) value {
	if keys == nil {
		keys = messageKeys
	}
	return bind(to, func(r *reader, n *strictyaml.Node) ([]matcher, bool) { return r.matchers(n, keys), true }, matchersYAML)
}

// sectionAt is for a mapping with fields. What it does not say stays as it is. The word none makes it what holds for a profile that says nothing.
func sectionAt[T any](to *T, usual T, fields func(*T) []field) value {
	return value{
		read: func(r *reader, path string, n *strictyaml.Node) {
			if isNone(n) {
				*to = usual
				return
			}
			r.set(path+".", r.entriesOf(n, fields(to)), fields(to))
		},
		print: func() *yaml.Node { return printed(fields(to), fields(&usual)) },
	}
}

// entriesAt is for one mapping with fields, or a list of them. what they are is for errors. check, if there is any, reports what does not fit
// together in an entry. The word none is an empty list.
func entriesAt[T any](to *[]T, what string, fields func(*T) []field, check func(r *reader, given []entry, at place, v *T)) value {
	parse := func(r *reader, n *strictyaml.Node) (list []T, ok bool) {
		if isNone(n) {
			return nil, true
		}
		for _, item := range items(n) {
			var v T
			before := len(r.problems)
			given := r.entriesOf(item, fields(&v))
			if len(given) == 0 && len(r.problems) == before {
				r.problem(placeOf(item), "empty entry: use a mapping with %s", spelling.OneOf(names(item, fields(&v))))
			}
			sound := len(r.problems) == before
			r.set(inList, given, fields(&v)) // also for what else is wrong with it
			if sound && r.needs(given, placeOf(item), what, needed(fields(&v))...) && len(r.problems) == before && check != nil {
				check(r, given, placeOf(item), &v)
			}
			if len(r.problems) == before {
				list = append(list, v)
			}
		}
		return list, true
	}
	return bind(to, parse, func(list []T) *yaml.Node {
		n := oneOrList(each(list, func(v *T) *yaml.Node {
			n := printed(fields(v), fields(new(T)))
			n.Style = yaml.FlowStyle
			return n
		}))
		if len(list) > 1 {
			n.Style = 0 // one entry in a line, as block lists are easier to read than long lines
		}
		return n
	})
}

// names returns the keys that a mapping may have.
func names(n *strictyaml.Node, fields []field) (names []string) {
	for _, f := range fields {
		if !f.hidden || slices.ContainsFunc(n.Content, func(key *strictyaml.Node) bool { return key.Value == f.name }) {
			names = append(names, f.name)
		}
	}
	return names
}

// needed returns the keys that an entry must have.
func needed(fields []field) (names []string) {
	for _, f := range fields {
		if f.needed {
			names = append(names, f.name)
		}
	}
	return names
}

// entriesOf returns the entries of a mapping with these fields.
func (r *reader) entriesOf(n *strictyaml.Node, fields []field) []entry {
	return r.fields(n, names(n, fields)...)
}

// inList is the prefix of the paths of fields in lists, whose places are not looked up.
const inList = "[]."

// set sets the fields that are given, and records their places. prefix is what comes before their names in their paths.
func (r *reader) set(prefix string, given []entry, fields []field) {
	for _, e := range given {
		r.own[prefix+e.key] = placeOf(e.value)
		for _, f := range fields {
			if f.name == e.key {
				f.read(r, prefix+e.key, e.value)
			}
		}
	}
}

// printed returns a mapping without the fields that only repeat what holds without them; nil if none is left.
func printed(fields, usual []field) *yaml.Node {
	var pairs []pair
	for i, f := range fields {
		if n := f.print(); n != nil && (f.shown || !reflect.DeepEqual(n, usual[i].print())) {
			pairs = append(pairs, pair{f.name, n})
		}
	}
	return block(pairs...)
}

// mapAt is for a mapping from any names to values. It is printed in one line, in the order of the names.
func mapAt[T any](to *map[string]T, wanted string, parse func(*reader, *strictyaml.Node) (T, bool), print func(T) *yaml.Node) value {
	return value{
		read: func(r *reader, path string, n *strictyaml.Node) {
			*to = make(map[string]T)
			for _, e := range r.mapping(n, wanted) {
				if v, ok := parse(r, e.value); ok {
					(*to)[e.key] = v
				}
				r.own[path+"."+e.key] = e.at
			}
		},
		print: func() *yaml.Node {
			var pairs []pair
			for _, name := range slices.Sorted(maps.Keys(*to)) {
				pairs = append(pairs, key(name, print((*to)[name])))
			}
			return inline(pairs...)
		},
		clear: func() { *to = nil },
	}
}
