package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// place is a place in a file.
type place struct{ line, column int }

// reader reads values from YAML nodes. It collects problems instead of stopping at the first.
type reader struct {
	strictyaml.Reader
	file     string
	problems Problems
	own      map[string]place // of the profile that is read: see spec.own
}

func newReader(file string) *reader {
	r := &reader{file: file}
	r.Report = func(n *strictyaml.Node, text string) { r.problem(placeOf(n), "%s", text) }
	return r
}

// problem records a problem at a place.
func (r *reader) problem(at place, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...)})
}

// placeOf returns where a node begins.
func placeOf(n *strictyaml.Node) place { return place{max(1, n.Line), max(1, n.Column)} }

// isText reports whether a node is text.
func isText(n *strictyaml.Node) bool { return strictyaml.KindOf(n) == strictyaml.Text }

// isMapping reports whether a node is a mapping.
func isMapping(n *strictyaml.Node) bool { return strictyaml.KindOf(n) == strictyaml.Mapping }

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    place // of the key
	value *strictyaml.Node
}

// mapping returns the entries of a mapping that may have any keys. It must not be left out.
func (r *reader) mapping(n *strictyaml.Node, wanted string) (entries []entry) {
	if strictyaml.KindOf(n) == strictyaml.Nothing {
		r.Wrong(n, wanted)
	}
	for _, e := range r.Entries(n, wanted) {
		entries = append(entries, entry{e.Key.Value, placeOf(e.Key), e.Value})
	}
	return entries
}

// belongs says where keys belong that users easily put in the wrong place.
var belongs = map[string]string{
	"close": "busy", "status": "busy", "count": "reset.until", "send": "reset or keepalive", "until": "reset", "settle": "reset",
	"timeout": "reset", "every": "keepalive", "ping": "keepalive", "sessions": "limits", "age": "limits", "idle": "limits",
	"allow": "variant", "private": "variant", "done": "tag", "failed": "tag", "client": "end", "resets": "end",
}

// fields returns the entries of a mapping whose keys must be among allowed.
func (r *reader) fields(n *strictyaml.Node, allowed ...string) []entry {
	keys := "the keys "
	if len(allowed) == 1 {
		keys = "the key "
	}
	entries := r.mapping(n, "a mapping with "+keys+strings.Join(allowed, ", "))
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
func items(n *strictyaml.Node) []*strictyaml.Node {
	if strictyaml.KindOf(n) == strictyaml.List {
		return n.Content
	}
	return []*strictyaml.Node{n}
}

// isNone reports whether a value is the word none, which turns an inherited value off.
func isNone(n *strictyaml.Node) bool { return isText(n) && n.Value == "none" }

// text reads a text, byte for byte.
func (r *reader) text(n *strictyaml.Node) (string, bool) {
	if !isText(n) {
		r.Wrong(n, "text (in quotes if it looks like something else)")
		return "", false
	}
	return n.Value, true
}

// word reads one of the allowed words and returns its index.
func (r *reader) word(n *strictyaml.Node, allowed ...string) (int, bool) {
	if !isText(n) {
		r.Wrong(n, spelling.OneOf(allowed))
		return 0, false
	}
	i := slices.Index(allowed, n.Value)
	if i < 0 {
		r.problem(placeOf(n), "%v", spelling.Unknown("value", n.Value, allowed))
		return 0, false
	}
	return i, true
}

// boolean reads true or false.
func (r *reader) boolean(n *strictyaml.Node) (value, ok bool) {
	if strictyaml.KindOf(n) != strictyaml.Bool {
		r.Wrong(n, "true or false")
		return false, false
	}
	return strings.EqualFold(n.Value, "true"), true
}

// number reads a whole number in a range.
func (r *reader) number(n *strictyaml.Node, low, high int64) (int64, bool) {
	wanted := fmt.Sprintf("a whole number from %d to %d", low, high)
	if strictyaml.KindOf(n) != strictyaml.Integer {
		r.Wrong(n, wanted)
		return 0, false
	}
	var value int64
	if err := n.Decode(&value); err != nil || value < low || value > high {
		r.problem(placeOf(n), "%s is out of range: use %s", n.Value, wanted)
		return 0, false
	}
	return value, true
}

// maxDuration is the longest duration that a profile may contain: a longer one is an error.
const maxDuration = 30 * 24 * time.Hour

// duration reads a duration such as 30ms, 5s or 10m, or 0.
func (r *reader) duration(n *strictyaml.Node) (time.Duration, bool) {
	const wanted = "a duration from 0 to 720h, such as 30ms, 5s or 10m"
	if kind := strictyaml.KindOf(n); kind != strictyaml.Text && kind != strictyaml.Integer {
		r.Wrong(n, wanted)
		return 0, false
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || d < 0 || d > maxDuration {
		r.problem(placeOf(n), "invalid duration %q: use %s", n.Value, wanted)
		return 0, false
	}
	return d, true
}

// size reads a number of bytes such as 65536 or 64KiB.
func (r *reader) size(n *strictyaml.Node, low, high int64) (int, bool) {
	if isText(n) {
		if digits, ok := strings.CutSuffix(n.Value, "KiB"); ok {
			if value, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32); err == nil && value<<10 >= low && value<<10 <= high {
				return int(value << 10), true
			}
		}
		r.problem(placeOf(n), "invalid size %q: use a number of bytes from %d to %d, such as 65536 or 64KiB", n.Value, low, high)
		return 0, false
	}
	value, ok := r.number(n, low, high)
	return int(value), ok
}

// path reads a path into a message.
func (r *reader) path(n *strictyaml.Node, parse func(string) (jsonPath, error)) (jsonPath, bool) {
	text, ok := r.text(n)
	if !ok {
		return nil, false
	}
	path, err := parse(text)
	if err != nil {
		r.problem(placeOf(n), "%v", err)
	}
	return path, err == nil
}
