package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// Parse reads profiles from YAML: a mapping with the one key profiles, which maps names to profiles (docs/reference/write-a-profile.md). It uses the file
// name only in error messages. A profile may inherit from a built-in one or from another one in the file.
//
// The error is [Problems]: everything that is wrong, with lines and columns. Parse then returns no profiles.
func Parse(file string, data []byte) ([]*Profile, error) {
	return parse(file, data, func(name string) bool { return slices.Contains(builtInNames, name) })
}

// parse does what Parse does; it calls a function to ask whether a built-in profile has a name.
func parse(file string, data []byte, taken func(string) bool) (list []*Profile, err error) {
	r := newReader(file)
	for _, s := range r.specs(data, taken) {
		if p := r.compile(s); p != nil {
			list = append(list, p)
		}
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return list, nil
}

// specs reads the profiles in a file.
func (r *reader) specs(data []byte, taken func(string) bool) []*spec {
	root := r.root(data)
	if root == nil {
		return nil
	}
	f := family{reader: r, done: make(map[string]*spec), nodes: make(map[string]entry)}
	for _, e := range r.fields(root, "profiles") {
		for _, e := range r.mapping(e.value, "a mapping from names to profiles") {
			switch {
			case taken(e.key):
				r.problem(e.at, "%q is a built-in profile: choose another name, and use from: %s to inherit from it", e.key, e.key)
			case !isName(e.key):
				r.problem(e.at, "invalid profile name %q: use at most 64 lower-case letters, digits and hyphens, not beginning with a hyphen", e.key)
			default:
				f.nodes[e.key] = e
				f.order = append(f.order, e.key)
			}
		}
	}
	var list []*spec
	for _, name := range f.order {
		if s := f.resolve(name, nil); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// isName reports whether a text can be a profile's name.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// maxFile is the size in bytes of the largest file of profiles.
const maxFile = 256 << 10

// root returns the file's one mapping, or nil.
func (r *reader) root(data []byte) *strictyaml.Node {
	root, err := strictyaml.Parse(data, maxFile)
	switch {
	case err != nil:
		r.problem(place{max(1, err.Line), 1}, "%s", err.Text)
	case root == nil:
		r.problem(place{1, 1}, "the file is empty: use profiles: {name: {...}}")
	}
	return root
}

// family resolves inheritance within a file.
type family struct {
	*reader
	nodes map[string]entry
	order []string
	done  map[string]*spec // nil for a profile that cannot be resolved
}

// resolve returns what a profile says, including what it inherits, or nil. heirs are the profiles that inherit from it and that are
// being resolved.
func (f *family) resolve(name string, heirs []string) *spec {
	if s, ok := f.done[name]; ok {
		return s
	}
	e := f.nodes[name]
	s := newSpec()
	for _, field := range childEntries(e.value) {
		if field.key != "from" {
			continue
		}
		parent, ok := f.parent(name, field.value, append(heirs, name))
		if !ok {
			f.done[name] = nil
			// Still check what it says itself.
			f.profile(&s, e.value)
			return nil
		}
		s = *parent
		s.from = parent.name
		s.own = make(map[string]place)
	}
	s.name, s.at = name, e.at
	f.profile(&s, e.value)
	f.done[name] = &s
	return &s
}

// childEntries returns the entries of a mapping and ignores its problems.
func childEntries(n *strictyaml.Node) []entry {
	return newReader("").mapping(n, "")
}

// parent returns the profile that another inherits from.
func (f *family) parent(name string, n *strictyaml.Node, heirs []string) (*spec, bool) {
	if !isText(n) {
		f.Wrong(n, "the name of a profile")
		return nil, false
	}
	from := n.Value
	if slices.Contains(heirs, from) {
		f.problem(placeOf(n), "%s inherits from itself: %s", name, strings.Join(append(heirs, from), " from "))
		return nil, false
	}
	if _, ok := f.nodes[from]; ok {
		s := f.resolve(from, heirs)
		return s, s != nil // if it is nil, its problems have been recorded
	}
	if slices.Contains(builtInNames, from) {
		p, err := Named(from)
		if err != nil {
			f.problem(placeOf(n), "%v", err)
			return nil, false
		}
		return p.spec, true
	}
	allowed := slices.Concat(f.order, builtInNames)
	f.problem(placeOf(n), "%v", spelling.Unknown("profile", from, slices.DeleteFunc(allowed, func(s string) bool { return s == name })))
	return nil, false
}

// Problem is one thing that is wrong in a profile's YAML.
type Problem struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
	Text   string
}

// Error returns the problem the way compilers do, so that editors find the place.
func (p Problem) Error() string { return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text) }

// Problems is everything that is wrong in a file, in the order of the file. [Parse] returns it as its error.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems in the order of the file, each once.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(p)
}
