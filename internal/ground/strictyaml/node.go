package strictyaml

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Node is a value in a file, with its line and column.
type Node = yaml.Node

// Kind is what a value is.
type Kind int

// The kinds.
const (
	Nothing Kind = iota // missing, or null
	Text
	Integer
	Float
	Bool
	List
	Mapping
	Unsupported // an anchor, an alias or a tag
)

var kindTexts = []string{"nothing", "text", "a number", "a number", "a boolean", "a list", "a mapping", "an anchor, an alias or a tag"}

// String says in words what a value of this kind is.
func (k Kind) String() string { return kindTexts[k] }

// KindOf returns what a value is. nil is nothing.
func KindOf(n *Node) Kind {
	switch {
	case n == nil || n.Kind == 0:
		return Nothing
	case n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return Unsupported
	case n.Kind == yaml.MappingNode:
		return Mapping
	case n.Kind == yaml.SequenceNode:
		return List
	}
	switch n.Tag {
	case "!!null":
		return Nothing
	case "!!int":
		return Integer
	case "!!float":
		return Float
	case "!!bool":
		return Bool
	}
	return Text // also what looks like a time
}

// Place returns the words for a node's place in the file of that name: file:line:column.
func Place(file string, n *Node) string {
	return fmt.Sprintf("%s:%d:%d", file, max(1, n.Line), max(1, n.Column))
}

// Reader takes values out of nodes.
type Reader struct {
	// Report gets each problem and its node. Reading continues behind it, so that all problems are reported together.
	Report func(n *Node, text string)
}

// Wrong says that a node is not what is expected there.
func (r Reader) Wrong(n *Node, expected string) {
	if KindOf(n) == Unsupported {
		r.Report(n, "anchors, aliases and tags are not supported: write the value out")
		return
	}
	r.Report(n, fmt.Sprintf("found %v; expected %s", KindOf(n), expected))
}

// Entry is a key of a mapping with its value.
type Entry struct{ Key, Value *Node }

// Entries returns a mapping's entries; nothing is an empty one. expected says in words what the mapping is.
func (r Reader) Entries(n *Node, expected string) (entries []Entry) {
	switch KindOf(n) {
	case Nothing:
		return nil
	case Mapping:
	default:
		r.Wrong(n, expected)
		return nil
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := Entry{n.Content[i], n.Content[i+1]}
		switch kind := KindOf(e.Key); {
		case kind == List || kind == Mapping || kind == Unsupported:
			r.Wrong(e.Key, "a key")
		case e.Key.Tag == "!!merge":
			r.Report(e.Key, "merge keys are not supported: write the keys out")
		case seen[e.Key.Value]:
			r.Report(e.Key, fmt.Sprintf("%q is defined twice", e.Key.Value))
		default:
			seen[e.Key.Value] = true
			entries = append(entries, e)
		}
	}
	return entries
}

// Known reports whether the entry's key is among those known, and if not, which one was probably meant. what is what the key names.
func (r Reader) Known(e Entry, what string, known []string) bool {
	if slices.Contains(known, e.Key.Value) {
		return true
	}
	r.Report(e.Key, spelling.Unknown(what, e.Key.Value, known).Error())
	return false
}

// Scalar returns a plain value as its text; nothing is an empty one.
func (r Reader) Scalar(n *Node) (text string, ok bool) {
	switch KindOf(n) {
	case Nothing:
		return "", true
	case List, Mapping, Unsupported:
		r.Wrong(n, "text or a number")
		return "", false
	}
	return n.Value, true
}

// Texts returns the texts of a list, or the one text that stands instead of a list; nothing is an empty list.
func (r Reader) Texts(n *Node) (list []string, ok bool) {
	if KindOf(n) != List {
		text, ok := r.Scalar(n)
		if text == "" {
			return nil, ok
		}
		return []string{text}, ok
	}
	ok = true
	for _, item := range n.Content {
		text, fine := r.Scalar(item)
		list, ok = append(list, text), ok && fine
	}
	return list, ok
}
