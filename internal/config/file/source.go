package file

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// source returns a profile as it stands in the file, comments included. A profile may also be given as a text (name: |), whose
// content it is then.
func (d *decoder) source(e entry) string {
	about := place{"profile", e.key.Value, ""}
	switch {
	case isNothing(e.value) || d.special(e.value, about):
		return ""
	case e.value.Kind == yaml.ScalarNode:
		return e.value.Value
	}
	lines := d.lines[e.key.Line:] // which count from 1
	var first []string
	if e.value.Line == e.key.Line { // {key: value} behind the name
		first = []string{string([]rune(d.lines[e.key.Line-1])[e.value.Column-1:])}
	}
	end := 0
	for i, text := range lines {
		trimmed := strings.TrimLeft(text, " ")
		if trimmed == "" || trimmed == "\r" {
			continue
		}
		if len(text)-len(trimmed) < e.key.Column { // of the next entry, or a comment before it
			if !strings.HasPrefix(trimmed, "#") {
				break
			}
			continue
		}
		end = i + 1
	}
	return strings.Join(append(first, lines[:end]...), "\n")
}
