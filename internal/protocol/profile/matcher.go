package profile

import (
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// matcher describes messages, or refusals of a server, that a profile must recognize. It is data; [newMatchSet] compiles it.
type matcher struct {
	at place

	// Exactly one of these, for a message.
	text     *string      // a text message of exactly these bytes
	contains string       // a text message that contains these bytes
	binary   *string      // a binary message of exactly these bytes
	json     []condition  // a text message that is JSON and meets all these conditions
	packed   bool         // json describes a binary message that is MessagePack instead
	opcode   frame.Opcode // any message of this kind

	// Or exactly one of these, for a refusal.
	close  []codeRange // the server's close code
	status []codeRange // the HTTP status of its answer to the opening handshake
}

// condition is one condition that a JSON text must meet.
type condition struct {
	path jsonPath
	kind jsonKind
	text string // for a string: its text, where tokenMark stands for the token; for a number: the number as it was written
}

// jsonKind is the kind of value that a condition requires.
type jsonKind uint8

const (
	jsonAny jsonKind = iota // any value
	jsonString
	jsonNumber
	jsonTrue
	jsonFalse
	jsonNull
)

// codeRange is a range of close codes or HTTP statuses, both ends included.
type codeRange struct{ low, high uint16 }

// isMessage reports whether the matcher describes messages, not refusals.
func (m *matcher) isMessage() bool { return m.close == nil && m.status == nil }

// inRanges reports whether the code is in one of the ranges.
func inRanges(code uint16, ranges []codeRange) bool {
	for _, r := range ranges {
		if r.low <= code && code <= r.high {
			return true
		}
	}
	return false
}

// The keys of matchers.
var (
	messageKeys = []string{"text", "contains", "json", "binary", "msgpack", "opcode"}
	refusalKeys = []string{"close", "status"}
)

// matchers reads a matcher or a list of alternatives. The word none is an empty list.
func (r *reader) matchers(n *strictyaml.Node, keys []string) []matcher {
	if isNone(n) {
		return nil
	}
	var list []matcher
	for _, item := range items(n) {
		before := len(r.problems)
		fields := r.fields(item, keys...)
		if len(fields) == 0 {
			if len(r.problems) == before {
				r.problem(placeOf(item), "empty matcher: use %s", spelling.OneOf(keys))
			}
			continue
		}
		if len(fields) > 1 {
			r.problem(fields[1].at, "this matcher has both %q and %q: use %s in each matcher, and a list of matchers where any of them may match",
				fields[0].key, fields[1].key, spelling.OneOf(keys))
			continue
		}
		if m, ok := r.matcher(fields[0]); ok {
			m.at = placeOf(item)
			list = append(list, m)
		}
	}
	return list
}

func (r *reader) matcher(f entry) (m matcher, ok bool) {
	switch f.key {
	case "text":
		var s string
		s, ok = r.text(f.value)
		m.text = &s
	case "contains":
		if m.contains, ok = r.text(f.value); ok && m.contains == "" {
			r.problem(placeOf(f.value), `every text contains "": use a text that is not empty, or {opcode: text}`)
			ok = false
		}
	case "binary":
		var s string
		s, ok = r.bytes(f.value)
		m.binary = &s
	case "json", "msgpack":
		m.json, ok = r.conditions(f.value)
		m.packed = f.key == "msgpack"
	case "opcode":
		var i int
		i, ok = r.word(f.value, "text", "binary")
		m.opcode = []frame.Opcode{frame.Text, frame.Binary}[i]
	case "close":
		m.close, ok = r.codes(f.value, 1000, 4999, "a close code that a server may send (RFC 6455, section 7.4), or a range such as 4000-4099")
		for _, c := range m.close {
			for _, never := range []uint16{1004, 1005, 1006, 1015} {
				if ok && inRanges(never, []codeRange{c}) && c.low == c.high {
					r.problem(placeOf(f.value), "impossible matcher: close code %d is never sent (RFC 6455, section 7.4.1)", never)
					ok = false
				}
			}
		}
	case "status":
		m.status, ok = r.codes(f.value, 300, 599, "an HTTP status that refuses the handshake, from 300 to 599, or a range such as 500-599")
	}
	return m, ok
}

// bytes reads the payload of a binary message.
func (r *reader) bytes(n *strictyaml.Node) (string, bool) {
	const forms = "empty, {base64: ...} or {text: ...}"
	if !isMapping(n) {
		if isText(n) && n.Value == "empty" {
			return "", true
		}
		r.Wrong(n, "the payload of a binary message: "+forms)
		return "", false
	}
	fields := r.fields(n, "base64", "text")
	if len(fields) != 1 {
		r.problem(placeOf(n), "a binary message has exactly one payload: use %s", forms)
		return "", false
	}
	if fields[0].key == "text" {
		return r.text(fields[0].value)
	}
	b, ok := r.base64(fields[0].value)
	return string(b), ok
}

// codes reads one number, a range, or a list of both.
func (r *reader) codes(n *strictyaml.Node, low, high uint16, wanted string) ([]codeRange, bool) {
	var ranges []codeRange
	for _, item := range items(n) {
		var from, to string
		switch strictyaml.KindOf(item) {
		case strictyaml.Integer:
			from, to = item.Value, item.Value
		case strictyaml.Text:
			from, to, _ = strings.Cut(item.Value, "-")
		default:
			r.Wrong(item, wanted)
			return nil, false
		}
		a, errA := strconv.ParseUint(from, 10, 16)
		b, errB := strconv.ParseUint(to, 10, 16)
		if errA != nil || errB != nil || a < uint64(low) || b > uint64(high) || a > b {
			r.problem(placeOf(item), "invalid code %q: use %s", item.Value, wanted)
			return nil, false
		}
		ranges = append(ranges, codeRange{uint16(a), uint16(b)})
	}
	if len(ranges) == 0 {
		r.Wrong(n, wanted)
	}
	return ranges, len(ranges) > 0
}

// conditions reads the conditions for a JSON text. A mapping inside the mapping stands for the paths that begin with its key.
func (r *reader) conditions(n *strictyaml.Node) ([]condition, bool) {
	var list []condition
	before := len(r.problems)
	r.conditionsBelow(n, nil, &list, nil)
	if len(r.problems) > before {
		return nil, false
	}
	if len(list) == 0 {
		r.problem(placeOf(n), `empty matcher: use a path and a value, such as {type: Begin} or {result.text: "*"}`)
		return nil, false
	}
	return list, true
}

func (r *reader) conditionsBelow(n *strictyaml.Node, prefix jsonPath, list *[]condition, places []place) []place {
	const plainValue = "impossible matcher: %s has a plain value, so %s cannot exist"
	entries := r.mapping(n, `a mapping from paths to values, such as {type: Begin} or {result.text: "*"}`)
	if prefix != nil && len(entries) == 0 {
		r.problem(placeOf(n), "%s has no condition: use a path and a value, or %s: \"*\"", prefix, prefix)
	}
	for _, e := range entries {
		below, err := parsePath(e.key)
		if err == nil && len(prefix)+len(below) > maxPath {
			err = errTooLong(e.key)
		}
		if err != nil {
			r.problem(e.at, "%v", err)
			continue
		}
		path := append(prefix[:len(prefix):len(prefix)], below...)
		if isMapping(e.value) {
			places = r.conditionsBelow(e.value, path, list, places)
			continue
		}
		c, ok := r.condition(e.value)
		if !ok {
			continue
		}
		c.path = path
		for i, other := range *list {
			switch {
			case other.path.String() == path.String():
				r.problem(e.at, "%s is defined twice, first in line %d", path, places[i].line)
			case other.kind != jsonAny && path.leadsThrough(other.path):
				r.problem(e.at, plainValue, other.path, path)
			case c.kind != jsonAny && other.path.leadsThrough(path):
				r.problem(e.at, plainValue, path, other.path)
			}
		}
		*list = append(*list, c)
		places = append(places, e.at)
	}
	return places
}

// condition reads the value that a condition requires.
func (r *reader) condition(n *strictyaml.Node) (condition, bool) {
	switch strictyaml.KindOf(n) {
	case strictyaml.Text:
		if n.Value == "*" {
			return condition{kind: jsonAny}, true
		}
		return condition{kind: jsonString, text: n.Value}, true
	case strictyaml.Bool:
		if strings.EqualFold(n.Value, "true") {
			return condition{kind: jsonTrue}, true
		}
		return condition{kind: jsonFalse}, true
	case strictyaml.Nothing:
		return condition{kind: jsonNull}, true
	case strictyaml.Integer, strictyaml.Float:
		if !validNumber(n.Value) {
			r.problem(placeOf(n), "impossible matcher: JSON has no number such as %s: use a decimal number, or text in quotes", n.Value)
			return condition{}, false
		}
		return condition{kind: jsonNumber, text: n.Value}, true
	}
	r.Wrong(n, `text, a number, true, false, null, or "*" for any value`)
	return condition{}, false
}

// validNumber reports whether the text is a number in JSON's notation (RFC 8259, section 6).
func validNumber(text string) bool {
	s := jsonScanner{b: []byte(text)}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && s.number() && s.pos == len(text)
}
