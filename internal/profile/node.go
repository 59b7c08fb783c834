package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// place is where something stands in a file.
type place struct{ line, column int }

// reader takes values out of YAML nodes, and notes what is wrong instead of stopping at it.
type reader struct {
	file     string
	problems Problems
}

// problem notes that something is wrong at a place.
func (r *reader) problem(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...)})
}

// placeOf returns where a node begins.
func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the mapping's own token is the first colon
	}
	token := n.GetToken()
	if token == nil || token.Position == nil {
		return place{1, 1}
	}
	return place{max(1, token.Position.Line), max(1, token.Position.Column)}
}

// kindOf says in plain words what a node is.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.InfinityNode, *ast.NanNode:
		return "a number that is not finite"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias (use from: to share settings)"
	case *ast.TagNode:
		return "a tagged value"
	}
	return "something else"
}

// wrong notes that a node is not what it should be.
func (r *reader) wrong(n ast.Node, wanted string) {
	r.problem(placeOf(n), "found %s; expected %s", kindOf(n), wanted)
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    place // of the key
	value ast.Node
}

// mapping returns the entries of a mapping whose keys are free. ok is false when the node is no mapping.
func (r *reader) mapping(n ast.Node, wanted string) (entries []entry, ok bool) {
	m, isMapping := n.(*ast.MappingNode)
	if !isMapping {
		r.wrong(n, wanted)
		return nil, false
	}
	seen := make(map[string]bool)
	for _, v := range m.Values {
		e := entry{at: placeOf(v.Key), value: v.Value}
		switch key := v.Key.(type) {
		case *ast.StringNode:
			e.key = key.Value
		case ast.ScalarNode: // 0: and true: are as good as "0": and "true":
			e.key = key.GetToken().Value
		default:
			r.problem(e.at, "unsupported kind of key: use plain or quoted text")
			continue
		}
		if v.Key.IsMergeKey() {
			r.problem(e.at, "merge keys are not supported: use from: to share settings")
			continue
		}
		if seen[e.key] {
			r.problem(e.at, "%q is defined twice", e.key)
			continue
		}
		seen[e.key] = true
		entries = append(entries, e)
	}
	return entries, true
}

// belongs says where keys belong that are easily put in the wrong place.
var belongs = map[string]string{
	"close": "busy", "status": "busy", "count": "reset.until", "send": "reset or keepalive", "until": "reset", "settle": "reset",
	"timeout": "reset", "every": "keepalive", "ping": "keepalive", "sessions": "limits", "age": "limits", "idle": "limits",
	"allow": "variant", "private": "variant", "done": "tag", "failed": "tag", "client": "end", "resets": "end",
}

// fields returns the entries of a mapping whose keys must be among allowed.
func (r *reader) fields(n ast.Node, allowed ...string) []entry {
	keys := "the keys "
	if len(allowed) == 1 {
		keys = "the key "
	}
	entries, _ := r.mapping(n, "a mapping with "+keys+strings.Join(allowed, ", "))
	known := entries[:0]
	for _, e := range entries {
		if !slices.Contains(allowed, e.key) {
			text := spelling.Unknown("key", e.key, allowed).Error()
			if where := belongs[e.key]; where != "" {
				text += fmt.Sprintf("; %s belongs under %s", e.key, where)
			}
			r.problem(e.at, "%s", text)
			continue
		}
		known = append(known, e)
	}
	return known
}

// items returns the items of a list, or a single value as a list of one.
func items(n ast.Node) []ast.Node {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values
	}
	return []ast.Node{n}
}

// isNone tells whether a value is the word none, which switches things off.
func isNone(n ast.Node) bool {
	s, ok := n.(*ast.StringNode)
	return ok && s.Value == "none"
}

// text returns a text as it stands, byte for byte.
func (r *reader) text(n ast.Node) (string, bool) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		r.wrong(n, "text (in quotes if it looks like something else)")
		return "", false
	}
	if !utf8.ValidString(s) {
		r.problem(placeOf(n), "invalid UTF-8 in a text message (RFC 6455, section 5.6): use UTF-8, or a binary message {base64: ...}")
		return "", false
	}
	return s, true
}

// word returns one of the allowed words and its index.
func (r *reader) word(n ast.Node, allowed ...string) (int, bool) {
	s, isText := n.(*ast.StringNode)
	if !isText {
		r.wrong(n, spelling.OneOf(allowed))
		return 0, false
	}
	for i, w := range allowed {
		if s.Value == w {
			return i, true
		}
	}
	r.problem(placeOf(n), "%v", spelling.Unknown("value", s.Value, allowed))
	return 0, false
}

// boolean returns true or false.
func (r *reader) boolean(n ast.Node) (value, ok bool) {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.wrong(n, "true or false")
		return false, false
	}
	return b.Value, true
}

// number returns a whole number in a range.
func (r *reader) number(n ast.Node, low, high int64) (int64, bool) {
	wanted := fmt.Sprintf("a whole number from %d to %d", low, high)
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		r.wrong(n, wanted)
		return 0, false
	}
	value, err := strconv.ParseInt(fmt.Sprint(i.Value), 10, 64)
	if err != nil || value < low || value > high {
		r.problem(placeOf(n), "%s is out of range: use %s", i.GetToken().Value, wanted)
		return 0, false
	}
	return value, true
}

// maxDuration is the longest time that a profile may give: more is a slip.
const maxDuration = 30 * 24 * time.Hour

// duration returns a duration such as 30ms, 5s or 10m, or 0.
func (r *reader) duration(n ast.Node) (time.Duration, bool) {
	const wanted = "a duration from 0 to 720h, such as 30ms, 5s or 10m"
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode:
		text = n.GetToken().Value
	default:
		r.wrong(n, wanted)
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxDuration {
		r.problem(placeOf(n), "invalid duration %q: use %s", text, wanted)
		return 0, false
	}
	return d, true
}

// size returns a number of bytes such as 65536 or 64KiB.
func (r *reader) size(n ast.Node, low, high int64) (int, bool) {
	if s, ok := n.(*ast.StringNode); ok {
		if digits, ok := strings.CutSuffix(s.Value, "KiB"); ok {
			if value, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32); err == nil && value<<10 >= low && value<<10 <= high {
				return int(value << 10), true
			}
		}
		r.problem(placeOf(n), "invalid size %q: use a number of bytes from %d to %d, such as 65536 or 64KiB", s.Value, low, high)
		return 0, false
	}
	value, ok := r.number(n, low, high)
	return int(value), ok
}
