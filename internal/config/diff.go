package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// Action is what happened to an entity.
type Action string

// The actions.
const (
	Added   Action = "added"
	Changed Action = "changed"
	Removed Action = "removed"
)

// Edit is one difference between two contents, for people (String) and for machines (JSON). Secrets are secret.Hidden in both.
type Edit struct {
	Action Action `json:"action"`
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	// Field is the field that changed, such as connections or labels.zone; empty if the entity was added or removed.
	Field string `json:"field,omitempty"`
	// From and To are its texts, the default if it was not set; empty for nothing.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Values are the fields of an entity that was added or removed, where they differ from the defaults.
	Values Values `json:"values,omitempty"`
}

// Edits are the differences between two contents: profiles, services, backends, each by name, their fields in the order of
// [Fields].
type Edits []Edit

// Diff returns the edits that lead from one content to the other.
func Diff(from, to *Content) (edits Edits) {
	for _, kind := range Kinds() {
		for _, name := range mergeNames(from.Names(kind), to.Names(kind)) {
			edits = append(edits, diffEntity(kind, name, from, to)...)
		}
	}
	return edits
}

func diffEntity(kind Kind, name string, from, to *Content) (edits Edits) {
	switch {
	case !from.Has(kind, name):
		return Edits{{Action: Added, Kind: kind, Name: name, Values: shown(kind, to.Values(kind, name))}}
	case !to.Has(kind, name):
		return Edits{{Action: Removed, Kind: kind, Name: name, Values: shown(kind, from.Values(kind, name))}}
	case tables[kind].same(from, to, name):
		return nil
	}
	before, after := from.Values(kind, name), to.Values(kind, name)
	for _, f := range Fields(kind) {
		edits = append(edits, diffField(kind, name, f, before.or(f), after.or(f))...)
	}
	return edits
}

// or returns a field's text, or its default.
func (v Values) or(f Field) string {
	if text, ok := v[f.Name]; ok {
		return text
	}
	return f.Default
}

func diffField(kind Kind, name string, f Field, from, to string) (edits Edits) {
	if from == to {
		return nil
	}
	if !f.IsMap {
		return Edits{{
			Action: Changed, Kind: kind, Name: name, Field: f.Name, From: show(kind, f.Name, "", from), To: show(kind, f.Name, "", to),
		}}
	}
	before, after := entriesOf(from), entriesOf(to)
	for _, key := range mergeNames(sortedKeys(before), sortedKeys(after)) {
		if before[key] != after[key] {
			edits = append(edits, Edit{
				Action: Changed, Kind: kind, Name: name, Field: f.Name + "." + key,
				From: show(kind, f.Name, key, before[key]), To: show(kind, f.Name, key, after[key]),
			})
		}
	}
	return edits
}

// entriesOf reads the canonical text of a map.
func entriesOf(text string) map[string]string {
	entries := make(map[string]string)
	if text != "" && json.Unmarshal([]byte(text), &entries) != nil {
		return map[string]string{"": secret.Hidden} // an old row of a history, which may contain anything
	}
	return entries
}

// isURL reports whether a field is a URL, whose parameters may be secret.
func isURL(kind Kind, field string) bool {
	return kind == KindBackend && field == "url" || kind == KindService && (field == "probe" || field == "auth-url" || field == "jwt-keys")
}

// mayHide reports whether show hides some texts of a field, or of a map's entry, or of what one like it could be.
func mayHide(kind Kind, field, key string) bool {
	return isURL(kind, field) || field == "headers" || field == "set-header" || field == "set-query" || key != "" && secret.IsName(key)
}

// show returns a field's text as it may be shown.
func show(kind Kind, field, key, text string) string {
	switch {
	case kind == KindBackend && field == "headers":
		return secret.Header(text)
	case isURL(kind, field):
		return secret.URL(text)
	case kind == KindKey && field == "hash" && text != "":
		return secret.Hidden
	case key != "" && secret.IsName(key) && text != "":
		return secret.Hidden
	}
	return text
}

// shown returns values as they may be shown.
func shown(kind Kind, values Values) Values {
	to := make(Values, len(values))
	for _, f := range Fields(kind) {
		text, ok := values[f.Name]
		if !ok {
			continue
		}
		if f.IsMap {
			for key, text := range entriesOf(text) {
				to[f.Name+"."+key] = show(kind, f.Name, key, text)
			}
			continue
		}
		to[f.Name] = show(kind, f.Name, "", text)
	}
	return to
}

// String returns the edit in an operator's words, on one line: backend gpu-2: connections 32 -> 48.
func (e Edit) String() string {
	subject := string(e.Kind) + " " + e.Name + ": "
	if e.Action != Changed {
		if words := e.Values.words(e.Kind); words != "" {
			return subject + string(e.Action) + " (" + words + ")"
		}
		return subject + string(e.Action)
	}
	return subject + e.Field + " " + fieldWord(e.Kind, e.Field, e.From) + " -> " + fieldWord(e.Kind, e.Field, e.To)
}

// words returns values on one line, in the order of their fields.
func (v Values) words(kind Kind) string {
	var words []string
	for _, f := range Fields(kind) {
		for _, key := range sortedKeys(v) {
			if key == f.Name || strings.HasPrefix(key, f.Name+".") {
				words = append(words, key+" "+fieldWord(kind, key, v[key]))
			}
		}
	}
	return strings.Join(words, ", ")
}

// fieldWord returns a field's text for use in a sentence; a list as its flag takes it, with commas between the items.
func fieldWord(kind Kind, field, text string) string {
	isList := slices.ContainsFunc(Fields(kind), func(f Field) bool { return f.IsList && f.Name == field })
	var list []string
	if !isList || json.Unmarshal([]byte(text), &list) != nil ||
		slices.ContainsFunc(list, func(item string) bool { return word(item) != item }) {
		return word(text)
	}
	return strings.Join(list, ",")
}

// word returns a text for use in a sentence.
func word(text string) string {
	switch {
	case text == "":
		return "(none)"
	case strings.ContainsRune(text, '\n'):
		if n := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1; n > 1 {
			return fmt.Sprintf("(%d lines)", n)
		}
		return "(1 line)"
	case strings.ContainsAny(text, " ,\"") && text != secret.Hidden:
		return fmt.Sprintf("%q", text)
	}
	return text
}

// String returns one line for each edit.
func (e Edits) String() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].String()
	}
	return strings.Join(lines, "\n")
}

// mergeNames returns the names that are in either of two lists, in order.
func mergeNames(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
