package file

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Decode reads a configuration from YAML: the keys services, backends and profiles, each with entities by name, each of these
// with its fields. The file's name is for errors, which are [config.Problems] with file:line:column and all that is wrong.
// check may be nil, as for [config.Content.Validate].
func Decode(name string, data []byte, check config.ProfileCheck) (config.Content, error) {
	d := read(name, data)
	if err := d.result(d.content.Validate(check)); err != nil {
		return config.Content{}, err
	}
	return d.content, nil
}

// read reads what a file says, without looking whether it makes sense.
func read(name string, data []byte) *decoder {
	d := &decoder{name: name, content: config.NewContent(), places: make(map[place]*yaml.Node)}
	d.decode(data)
	return d
}

// result returns what could not be read together with what is not valid, with places.
func (d *decoder) result(invalid error) error {
	all := d.problems.With(invalid)
	for i := range all {
		if all[i].Place == "" {
			all[i].Place = d.placeOf(all[i])
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
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
	places   map[place]*yaml.Node // where entities and fields stand
}

// place is an entity, or a field of one.
type place struct {
	kind        config.Kind
	name, field string
}

// placeOf returns where what the problem is about stands, or at least the entity.
func (d *decoder) placeOf(p config.Problem) string {
	field, _, _ := strings.Cut(p.Field, ".")
	for _, name := range []string{p.Field, field, ""} {
		if n, ok := d.places[place{p.Kind, p.Name, name}]; ok {
			return d.at(n)
		}
	}
	return d.name
}

// at returns the words for a place in the file.
func (d *decoder) at(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", d.name, max(1, n.Line), max(1, n.Column))
}

// bad notes what is wrong at a node.
func (d *decoder) bad(n *yaml.Node, about place, format string, args ...any) {
	d.problems = append(d.problems, config.Problem{
		Place: d.at(n), Kind: about.kind, Name: about.name, Field: about.field, Text: fmt.Sprintf(format, args...),
	})
}

func (d *decoder) decode(data []byte) {
	root, where, err := parse(data)
	if err != nil {
		d.problems = append(d.problems, config.Problem{Place: d.name + where, Text: err.Error()})
		return
	}
	d.lines = strings.Split(string(data), "\n")
	known := make([]string, len(sections))
	for i, s := range sections {
		known[i] = s.key
	}
	for _, top := range d.mapping(root, place{}, "the keys services, backends and profiles") {
		i := slices.Index(known, top.key.Value)
		if i < 0 {
			d.bad(top.key, place{}, "%s", config.Unknown("key", top.key.Value, known))
			continue
		}
		for _, entity := range d.mapping(top.value, place{}, "names with their fields") {
			d.places[place{sections[i].kind, entity.key.Value, ""}] = entity.key
			d.entity(sections[i].kind, entity)
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
	for _, p := range d.content.Set(kind, e.key.Value, values) {
		p.Place = d.placeOf(p)
		d.problems = append(d.problems, p)
	}
}

func (d *decoder) fields(kind config.Kind, e entry, values config.Values) {
	fields := config.Fields(kind)
	for _, f := range d.mapping(e.value, place{kind, e.key.Value, ""}, "fields with their values") {
		name := f.key.Value
		i := slices.IndexFunc(fields, func(known config.Field) bool { return known.Name == name })
		if i < 0 {
			names := make([]string, len(fields))
			for i := range fields {
				names[i] = fields[i].Name
			}
			d.bad(f.key, place{kind, e.key.Value, ""}, "%s", config.Unknown("key", name, names))
			continue
		}
		here := place{kind, e.key.Value, name}
		d.places[here] = f.value
		switch {
		case fields[i].IsMap:
			entries := make(map[string]string)
			for _, item := range d.mapping(f.value, here, "names with their texts") {
				below := place{kind, e.key.Value, name + "." + item.key.Value}
				d.places[below] = item.value
				if text, ok := d.scalar(item.value, below); ok {
					entries[item.key.Value] = text
				}
			}
			values[name] = config.MapText(entries)
		case fields[i].IsList && f.value.Kind == yaml.SequenceNode:
			var list []string
			for _, item := range f.value.Content {
				text, _ := d.scalar(item, here)
				list = append(list, text)
			}
			values[name] = config.ListText(list)
		default:
			values[name], _ = d.scalar(f.value, here)
		}
	}
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// mapping returns a mapping's entries; nothing is an empty one.
func (d *decoder) mapping(n *yaml.Node, about place, what string) (entries []entry) {
	if isNothing(n) || d.special(n, about) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.bad(n, about, "this is not a mapping; allowed are %s", what)
		return nil
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := entry{n.Content[i], n.Content[i+1]}
		switch {
		case d.special(e.key, about):
		case e.key.Kind != yaml.ScalarNode:
			d.bad(e.key, about, "this is not a name; allowed are texts")
		case seen[e.key.Value]:
			d.bad(e.key, about, "%q is there twice; allowed is once", e.key.Value)
		default:
			seen[e.key.Value] = true
			entries = append(entries, e)
		}
	}
	return entries
}

// scalar returns a plain value as its text; nothing is an empty one.
func (d *decoder) scalar(n *yaml.Node, about place) (text string, ok bool) {
	switch {
	case isNothing(n):
		return "", true
	case d.special(n, about):
		return "", false
	case n.Kind != yaml.ScalarNode:
		d.bad(n, about, "this is not a single value; allowed is a text or number")
		return "", false
	}
	return n.Value, true
}

// special notes that a node has what makes YAML hard to read.
func (d *decoder) special(n *yaml.Node, about place) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		d.bad(n, about, "anchors, aliases and tags are not understood; allowed is to write it out")
		return true
	}
	return false
}

// isNothing tells whether a node is missing, or is null without saying more.
func isNothing(n *yaml.Node) bool {
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}
