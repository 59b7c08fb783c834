package strictyaml

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Bad takes note of what is wrong at a node, and what is allowed there.
type Bad func(n *yaml.Node, text string)

// Entry is a key of a mapping with its value.
type Entry struct{ Key, Value *yaml.Node }

// Place returns the words for a node's place in the file of that name: file:line:column.
func Place(file string, n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", file, max(1, n.Line), max(1, n.Column))
}

// Mapping returns a mapping's entries; nothing is an empty one. what describes the entries: "of names to texts".
func Mapping(n *yaml.Node, what string, bad Bad) (entries []Entry) {
	if IsNothing(n) || IsSpecial(n, bad) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		bad(n, "expected a mapping "+what)
		return nil
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := Entry{n.Content[i], n.Content[i+1]}
		switch {
		case IsSpecial(e.Key, bad):
		case e.Key.Kind != yaml.ScalarNode:
			bad(e.Key, "invalid key: use text")
		case seen[e.Key.Value]:
			bad(e.Key, fmt.Sprintf("%q is defined twice", e.Key.Value))
		default:
			seen[e.Key.Value] = true
			entries = append(entries, e)
		}
	}
	return entries
}

// Scalar returns a plain value as its text; nothing is an empty one.
func Scalar(n *yaml.Node, bad Bad) (text string, ok bool) {
	switch {
	case IsNothing(n):
		return "", true
	case IsSpecial(n, bad):
		return "", false
	case n.Kind != yaml.ScalarNode:
		bad(n, "expected a single value: use text or a number")
		return "", false
	}
	return n.Value, true
}

// List returns the texts of a list, or the one text that stands in the place of a list; nothing is an empty list.
func List(n *yaml.Node, bad Bad) (list []string, ok bool) {
	if IsNothing(n) || n.Kind != yaml.SequenceNode {
		text, ok := Scalar(n, bad)
		if text == "" {
			return nil, ok
		}
		return []string{text}, ok
	}
	ok = !IsSpecial(n, bad)
	for _, item := range n.Content {
		text, fine := Scalar(item, bad)
		list, ok = append(list, text), ok && fine
	}
	return list, ok
}

// IsSpecial tells, also to bad, whether a node has what makes YAML hard to read.
func IsSpecial(n *yaml.Node, bad Bad) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		bad(n, "anchors, aliases and tags are not supported: write the value out")
		return true
	}
	return false
}

// IsNothing tells whether a node is missing, or is null without saying more.
func IsNothing(n *yaml.Node) bool {
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}
