package file

import (
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// MaxFile is the size in bytes of the largest file: about 25,000 backends.
const MaxFile = 4 << 20

// Decode reads a configuration from YAML: the keys services, backends, profiles, tenants and keys, each with entities by name, each of these
// with its fields. The file's name is for errors, which are [config.Problems] with file:line:column and all that is wrong.
// check may be nil, as for [config.Content.Validate].
func Decode(name string, data []byte, check config.ProfileCheck) (config.Content, error) {
	return decode(name, data, false, check)
}

// DecodeEarlier reads as [Decode] does, and also what an earlier version has written that this one no longer has.
func DecodeEarlier(name string, data []byte, check config.ProfileCheck) (config.Content, error) {
	return decode(name, data, true, check)
}

func decode(name string, data []byte, earlier bool, check config.ProfileCheck) (config.Content, error) {
	d := read(name, data, earlier)
	if err := d.result(d.content.Validate(check)); err != nil {
		return config.Content{}, err
	}
	return d.content, nil
}

// DecodePart reads as [Decode] does, but what a file says may be a part of a configuration: whether what it refers to exists is
// not checked, nor what is in profiles.
func DecodePart(name string, data []byte) (config.Content, error) {
	d := read(name, data, false)
	if err := d.result(nil); err != nil {
		return config.Content{}, err
	}
	return d.content, nil
}

// read reads what a file says, without looking whether it makes sense.
func read(name string, data []byte, earlier bool) *decoder {
	d := &decoder{name: name, content: config.NewContent(), places: make(map[place]*strictyaml.Node), earlier: earlier}
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
}{{"services", config.KindService}, {"backends", config.KindBackend}, {"profiles", config.KindProfile}, {"tenants", config.KindTenant}, {"keys", config.KindKey}}

type decoder struct {
	name     string
	lines    []string
	content  config.Content
	problems config.Problems
	places   map[place]*strictyaml.Node // where entities and fields stand
	defines  bool                       // it has an entity, or an empty mapping instead of some
	earlier  bool                       // an earlier version may have written it; static
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
func (d *decoder) at(n *strictyaml.Node) string {
	return strictyaml.Place(d.name, n)
}

func (d *decoder) decode(data []byte) {
	root, err := strictyaml.Parse(data, MaxFile)
	if err != nil {
		d.problems = append(d.problems, config.Problem{Place: err.Place(d.name), Text: err.Text})
		return
	}
	d.lines = strictyaml.Lines(string(data))
	d.defines = isEmptyMapping(root)
	known := make([]string, len(sections))
	for i, s := range sections {
		known[i] = s.key
	}
	read := d.about(place{})
	for _, top := range read.Entries(root, "a mapping with the keys services, backends, profiles, tenants and keys") {
		if !read.Known(top, "key", known) {
			continue
		}
		i := slices.Index(known, top.Key.Value)
		d.defines = d.defines || isEmptyMapping(top.Value)
		for _, entity := range read.Entries(top.Value, "a mapping from names to fields") {
			d.defines = true
			d.places[place{sections[i].kind, entity.Key.Value, ""}] = entity.Key
			d.entity(sections[i].kind, entity)
		}
	}
}

func isEmptyMapping(n *strictyaml.Node) bool {
	return strictyaml.KindOf(n) == strictyaml.Mapping && len(n.Content) == 0
}

// mustDefine complains of a file that defines nothing: it is more likely that it is being written, or was lost, than that there
// should be no services. An operator who wants that writes an empty mapping.
func (d *decoder) mustDefine() {
	if !d.defines && len(d.problems) == 0 {
		d.problems = append(d.problems, config.Problem{
			Place: d.name, Text: `the file defines nothing: write "services: {}" if this is intended`,
		})
	}
}

func (d *decoder) entity(kind config.Kind, e strictyaml.Entry) {
	values := make(config.Values)
	if kind == config.KindProfile {
		values["yaml"] = d.source(e)
	} else {
		d.fields(kind, e, values)
	}
	if d.earlier {
		values = config.FromEarlier(kind, values)
	}
	for _, p := range d.content.Set(kind, e.Key.Value, values) {
		p.Place = d.placeOf(p)
		d.problems = append(d.problems, p)
	}
}

func (d *decoder) fields(kind config.Kind, e strictyaml.Entry, values config.Values) {
	fields, removed := config.Fields(kind), config.RemovedFields(kind)
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	read := d.about(place{kind, e.Key.Value, ""})
	for _, f := range read.Entries(e.Value, "a mapping from fields to values") {
		switch err, gone := removed[f.Key.Value]; {
		case gone && d.earlier:
			values[f.Key.Value], _ = read.Scalar(f.Value)
			continue
		case gone:
			read.Report(f.Key, err.Error())
			continue
		}
		if !read.Known(f, "key", names) {
			continue
		}
		name := f.Key.Value
		i := slices.Index(names, name)
		here := place{kind, e.Key.Value, name}
		d.places[here] = f.Value
		switch {
		case fields[i].IsMap:
			entries := make(map[string]string)
			for _, item := range d.about(here).Entries(f.Value, "a mapping from names to texts") {
				below := place{kind, e.Key.Value, name + "." + item.Key.Value}
				d.places[below] = item.Value
				if text, ok := d.about(below).Scalar(item.Value); ok {
					entries[item.Key.Value] = text
				}
			}
			values[name] = config.MapText(entries)
		case fields[i].IsList && strictyaml.KindOf(f.Value) == strictyaml.List:
			list, _ := d.about(here).Texts(f.Value)
			values[name] = config.ListText(list)
		default:
			values[name], _ = d.about(here).Scalar(f.Value)
		}
	}
}

// about reads what is about something.
func (d *decoder) about(what place) strictyaml.Reader {
	return strictyaml.Reader{Report: func(n *strictyaml.Node, text string) {
		d.problems = append(d.problems, config.Problem{Place: d.at(n), Kind: what.kind, Name: what.name, Field: what.field, Text: text})
	}}
}
