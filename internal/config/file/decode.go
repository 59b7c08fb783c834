package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Decode reads a configuration from YAML: the keys services, backends and profiles, each with entities by name, each of these
// with its fields. The file's name is for errors, which are [config.Problems] with file:line:column and all that is wrong.
// check may be nil, as for [config.Content.Validate].
func Decode(name string, data []byte, check config.ProfileCheck) (config.Content, error) {
	d := decoder{name: name, content: config.NewContent(), places: make(map[string]string)}
	d.decode(data)
	all := d.problems.With(d.content.Validate(check))
	for i := range all {
		if all[i].Place == "" {
			all[i].Place = d.placeOf(all[i])
		}
	}
	if len(all) > 0 {
		return config.Content{}, all
	}
	return d.content, nil
}

// sections are the keys of a file, in the order in which they are written.
var sections = []struct {
	key  string
	kind config.Kind
}{{"services", config.KindService}, {"backends", config.KindBackend}, {"profiles", config.KindProfile}}

type decoder struct {
	name     string
	lines    []string
	content  config.Content
	problems config.Problems
	places   map[string]string // where entities and fields stand, see key
}

func key(kind config.Kind, name, field string) string {
	return string(kind) + "\x00" + name + "\x00" + field
}

// placeOf returns where what the problem is about stands, or at least the entity.
func (d *decoder) placeOf(p config.Problem) string {
	field, _, _ := strings.Cut(p.Field, ".")
	for _, k := range []string{key(p.Kind, p.Name, p.Field), key(p.Kind, p.Name, field), key(p.Kind, p.Name, "")} {
		if place, ok := d.places[k]; ok {
			return place
		}
	}
	return d.name
}

func (d *decoder) place(t *token.Token) string {
	if t == nil || t.Position == nil {
		return d.name
	}
	return fmt.Sprintf("%s:%d:%d", d.name, max(1, t.Position.Line), max(1, t.Position.Column))
}

// bad notes what is wrong at a node.
func (d *decoder) bad(t *token.Token, kind config.Kind, name, field, format string, args ...any) {
	d.problems = append(d.problems, config.Problem{
		Place: d.place(t), Kind: kind, Name: name, Field: field, Text: fmt.Sprintf(format, args...),
	})
}

func (d *decoder) decode(data []byte) {
	if err := checkBytes(data); err != nil {
		d.problems = append(d.problems, config.Problem{Place: d.name, Text: err.Error()})
		return
	}
	root, at, err := parse(data)
	if err != nil {
		d.bad(at, "", "", "", "%v", err)
		return
	}
	d.lines = strings.Split(string(data), "\n")
	known := make([]string, len(sections))
	for i, s := range sections {
		known[i] = s.key
	}
	for _, top := range d.mapping(root, "", "", "", "the keys services, backends and profiles") {
		i := slices.Index(known, top.key)
		if i < 0 {
			d.bad(top.at, "", "", "", "%s", config.Unknown("key", top.key, known))
			continue
		}
		kind := sections[i].kind
		for _, entity := range d.mapping(top.value, "", "", "", "names with their fields") {
			d.places[key(kind, entity.key, "")] = d.place(entity.at)
			d.entity(kind, entity)
		}
	}
}

func (d *decoder) entity(kind config.Kind, e entry) {
	values := make(config.Values)
	if kind == config.KindProfile {
		values["yaml"] = d.source(e)
	} else {
		d.fields(kind, e, values)
	}
	for _, p := range d.content.Set(kind, e.key, values) {
		p.Place = d.placeOf(p)
		d.problems = append(d.problems, p)
	}
}

func (d *decoder) fields(kind config.Kind, e entry, values config.Values) {
	fields := config.Fields(kind)
	for _, f := range d.mapping(e.value, kind, e.key, "", "fields with their values") {
		i := slices.IndexFunc(fields, func(known config.Field) bool { return known.Name == f.key })
		if i < 0 {
			var names []string
			for _, known := range fields {
				names = append(names, known.Name)
			}
			d.bad(f.at, kind, e.key, "", "%s", config.Unknown("key", f.key, names))
			continue
		}
		d.places[key(kind, e.key, f.key)] = d.place(tokenOf(f.value, f.at))
		switch {
		case fields[i].IsMap:
			entries := make(map[string]string)
			for _, item := range d.mapping(f.value, kind, e.key, f.key, "names with their texts") {
				d.places[key(kind, e.key, f.key+"."+item.key)] = d.place(tokenOf(item.value, item.at))
				entries[item.key] = d.scalar(item.value, kind, e.key, f.key+"."+item.key)
			}
			values[f.key] = config.MapText(entries)
		case fields[i].IsList:
			values[f.key] = config.ListText(d.list(f.value, kind, e.key, f.key))
		default:
			values[f.key] = d.scalar(f.value, kind, e.key, f.key)
		}
	}
}

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	at    *token.Token
	value ast.Node
}

// mapping returns a mapping's entries; nothing is an empty one.
func (d *decoder) mapping(n ast.Node, kind config.Kind, name, field, what string) (entries []entry) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.bad(n.GetToken(), kind, name, field, "this is not a mapping; allowed are %s", what)
	}
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		e := entry{at: v.Key.GetToken(), value: v.Value}
		switch k := v.Key.(type) {
		case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
			d.bad(e.at, kind, name, field, "anchors, aliases, tags and merge keys are not understood; allowed is to write it out")
			continue
		case ast.ScalarNode:
			e.key, _ = scalarText(k)
		}
		if seen[e.key] {
			d.bad(e.at, kind, name, field, "%q is there twice; allowed is once", e.key)
			continue
		}
		seen[e.key] = true
		entries = append(entries, e)
	}
	return entries
}

// scalar returns a plain value as its text; nothing is an empty one.
func (d *decoder) scalar(n ast.Node, kind config.Kind, name, field string) string {
	text, ok := scalarText(n)
	if !ok {
		d.bad(tokenOf(n, nil), kind, name, field, "this is not a single value; allowed is a text or number (anchors, aliases and tags are not understood)")
	}
	return text
}

func (d *decoder) list(n ast.Node, kind config.Kind, name, field string) (list []string) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		if text := d.scalar(n, kind, name, field); text != "" {
			list = append(list, text)
		}
		return list
	}
	for _, item := range sequence.Values {
		list = append(list, d.scalar(item, kind, name, field))
	}
	return list
}

// scalarText returns a scalar as it was written, without quotes.
func scalarText(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "", true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func tokenOf(n ast.Node, or *token.Token) *token.Token {
	if n == nil || n.GetToken() == nil {
		return or
	}
	return n.GetToken()
}

// parse returns the one document's root, nil if there is nothing in it.
func parse(data []byte) (root ast.Node, at *token.Token, err error) {
	defer func() { // a defect of the YAML library must not end the proxy
		if failure := recover(); failure != nil {
			root, at, err = nil, nil, fmt.Errorf("this YAML is not understood: %v", failure)
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		text := err.Error()
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			at, text = syntax.Token, syntax.Message
		}
		return nil, at, fmt.Errorf("no valid YAML: %s", text)
	}
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case root != nil:
			return nil, document.Body.GetToken(), errors.New("a second document; allowed is one")
		default:
			root = document.Body
		}
	}
	return root, nil, nil
}
