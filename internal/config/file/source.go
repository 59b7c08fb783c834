package file

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// source returns a profile as it stands in the file, comments included. A profile may also be given
// as a text (name: |), whose content it is then.
func (d *decoder) source(e entry) string {
	if e.value == nil {
		return ""
	}
	if text, ok := scalarText(e.value); ok {
		return text
	}
	switch e.value.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.scalar(e.value, "profile", e.key, "")
		return ""
	}
	line, column := e.at.Position.Line, e.at.Position.Column // from 1
	lines := d.lines[line:]
	var first []string
	if start := e.value.GetToken().Position; start.Line == line { // {key: value} behind the name
		first = []string{string([]rune(d.lines[line-1])[start.Column-1:])}
	}
	end := 0
	for i, text := range lines {
		trimmed := strings.TrimLeft(text, " ")
		if trimmed == "" || trimmed == "\r" {
			continue
		}
		if len(text)-len(trimmed) < column { // of the next entry, or a comment before it
			if !strings.HasPrefix(trimmed, "#") {
				break
			}
			continue
		}
		end = i + 1
	}
	return strings.Join(append(first, lines[:end]...), "\n")
}
