package file

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// source returns a profile as it stands in the file, comments included. A profile may also be given as a text (name: |), whose
// content it is then.
func (d *decoder) source(e strictyaml.Entry) string {
	switch strictyaml.KindOf(e.Value) {
	case strictyaml.Unsupported:
		d.about(place{config.KindProfile, e.Key.Value, ""}).Wrong(e.Value, "a profile")
		return ""
	case strictyaml.Nothing:
		return ""
	case strictyaml.List, strictyaml.Mapping:
	default:
		return e.Value.Value
	}
	if before := []rune(d.lines[e.Key.Line-1])[:e.Key.Column-1]; strings.TrimSpace(string(before)) != "" {
		// It stands in braces, {mine: {from: vosk}}, which may be followed by more. Written anew it says the same.
		if text, err := yaml.Marshal(e.Value); err == nil {
			return strings.TrimRight(string(text), "\n")
		}
	}
	lines := d.lines[min(e.Key.Line, len(d.lines)):] // which count from 1
	var first []string
	if e.Value.Line == e.Key.Line { // {key: value} behind the name
		first = []string{string([]rune(d.lines[e.Key.Line-1])[e.Value.Column-1:])}
	}
	end := 0
	for i, text := range lines {
		trimmed := strings.TrimLeft(text, " ")
		if strictyaml.Content(trimmed) == "" {
			continue
		}
		if len(text)-len(trimmed) < e.Key.Column { // of the next entry, or a comment before it
			if !strings.HasPrefix(trimmed, "#") {
				break
			}
			continue
		}
		end = i + 1
	}
	return strictyaml.Content(strings.Join(append(first, lines[:end]...), ""))
}
