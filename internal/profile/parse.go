package profile

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// Parse reads profiles from YAML: a mapping with the one key profiles, which maps names to profiles (docs/profiles.md). The
// file name is for error messages. A profile may inherit from a built-in one or from another one in the file.
//
// The error is [Problems]: everything that is wrong, with lines and columns. Then there are no profiles.
func Parse(file string, data []byte) ([]*Profile, error) {
	return parse(file, data, func(name string) bool { return slices.Contains(builtInNames, name) })
}

// parse is Parse with a way to ask whether a name is taken by a built-in profile.
func parse(file string, data []byte, taken func(string) bool) (list []*Profile, err error) {
	r := &reader{file: file}
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

// specs returns what the profiles in a file say.
func (r *reader) specs(data []byte, taken func(string) bool) []*spec {
	root := r.root(data)
	if root == nil {
		return nil
	}
	f := family{reader: r, done: make(map[string]*spec), nodes: make(map[string]entry)}
	for _, e := range r.fields(root, "profiles") {
		entries, _ := r.mapping(e.value, "a mapping from names to profiles")
		for _, e := range entries {
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

// isName tells whether a text can be a profile's name.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// maxFile is the size in bytes of the largest file of profiles.
const maxFile = 256 << 10

// root returns the file's one mapping, or nil.
func (r *reader) root(data []byte) (root ast.Node) {
	if len(data) > maxFile {
		r.problem(place{1, 1}, "the file has %d bytes: use at most %d", len(data), maxFile)
		return nil
	}
	if at, ok := firstInvalid(data); !ok {
		r.problem(at, "invalid UTF-8: YAML and WebSocket text messages must be UTF-8 (RFC 6455, section 5.6); use a binary message {base64: ...} for other bytes")
		return nil
	}
	if at, ok := firstTooDeep(data); !ok {
		r.problem(at, "nested too deeply: use at most %d nested brackets, and at most %d spaces and signs at the beginning of a line", deepest, 4*deepest)
		return nil
	}
	defer func() { // a defect of the YAML library must not end the proxy
		if failure := recover(); failure != nil {
			r.problem(place{1, 1}, "cannot parse this YAML: %v", failure)
			root = nil
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, text := place{1, 1}, err.Error()
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			text = syntax.Message
			if t := syntax.Token; t != nil && t.Position != nil {
				at = place{max(1, t.Position.Line), max(1, t.Position.Column)}
			}
		}
		r.problem(at, "invalid YAML: %s", text)
		return nil
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			r.problem(placeOf(doc.Body), "a second YAML document: use only one")
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.problem(place{1, 1}, "the file is empty: use profiles: {name: {...}}")
	}
	return root
}

// firstInvalid returns where the first byte stands that is not UTF-8. ok is true when there is none.
func firstInvalid(data []byte) (at place, ok bool) {
	at = place{1, 1}
	for len(data) > 0 {
		c, n := utf8.DecodeRune(data)
		if c == utf8.RuneError && n == 1 {
			return at, false
		}
		at.column++
		if c == '\n' {
			at = place{at.line + 1, 1}
		}
		data = data[n:]
	}
	return at, true
}

// family resolves inheritance within a file.
type family struct {
	*reader
	nodes map[string]entry
	order []string
	done  map[string]*spec // nil for a profile that cannot be resolved
}

// resolve returns what a profile says, inheritance included. heirs are the profiles that wait for it.
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
			// What it says itself is still checked.
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

// childEntries returns the entries of a mapping without a word about what is wrong with it.
func childEntries(n ast.Node) []entry {
	silent := reader{}
	entries, _ := silent.mapping(n, "")
	return entries
}

// parent returns the profile that another inherits from.
func (f *family) parent(name string, n ast.Node, heirs []string) (*spec, bool) {
	from, isText := n.(*ast.StringNode)
	if !isText {
		f.wrong(n, "the name of a profile")
		return nil, false
	}
	if slices.Contains(heirs, from.Value) {
		f.problem(placeOf(n), "%s inherits from itself: %s", name, strings.Join(append(heirs, from.Value), " from "))
		return nil, false
	}
	if _, ok := f.nodes[from.Value]; ok {
		s := f.resolve(from.Value, heirs)
		return s, s != nil // otherwise the reason has been told
	}
	if slices.Contains(builtInNames, from.Value) {
		p, err := Named(from.Value)
		if err != nil {
			f.problem(placeOf(n), "%v", err)
			return nil, false
		}
		return p.spec, true
	}
	allowed := slices.Concat(f.order, builtInNames)
	f.problem(placeOf(n), "%v", spelling.Unknown("profile", from.Value, slices.DeleteFunc(allowed, func(s string) bool { return s == name })))
	return nil, false
}
