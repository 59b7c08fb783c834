package profile

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return flow(quoted(items))
}

func flow(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

func braces(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "{" + strings.Join(items, ", ") + "}"
}

func quoted(items []string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = quoteValue(item)
	}
	return out
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func numberYAML(value, usual int) string {
	if value == usual {
		return ""
	}
	return strconv.Itoa(value)
}

// durationYAML returns a duration without the zeros at the end of Duration.String, or nothing for the default.
func durationYAML(value, usual time.Duration) string {
	if value == usual {
		return ""
	}
	text := value.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	if text == "0s" {
		return "0"
	}
	return text
}

func messagesYAML(messages []Message) string {
	var out []string
	for _, m := range messages {
		switch {
		case m.zeros > 0:
			out = append(out, fmt.Sprintf("{zeros: %d}", m.zeros))
		case m.Binary:
			out = append(out, "{base64: "+quoteValue(base64.StdEncoding.EncodeToString([]byte(m.payload)))+"}")
		default:
			out = append(out, quoteValue(m.payload))
		}
	}
	return oneOrFlow(out)
}

func oneOrFlow(items []string) string {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return flow(items)
}

func untilYAML(r *resetSpec) string {
	if r.quiet {
		return "quiet"
	}
	var out []string
	if r.count > 0 {
		out = append(out, fmt.Sprintf("{count: %d}", r.count))
	}
	for i := range r.until {
		out = append(out, r.until[i].yaml())
	}
	return oneOrFlow(out)
}

func matchersYAML(matchers []matcher) string {
	var out []string
	for i := range matchers {
		out = append(out, matchers[i].yaml())
	}
	return oneOrFlow(out)
}

func (m *matcher) yaml() string {
	switch {
	case m.text != nil:
		return "{text: " + quoteValue(*m.text) + "}"
	case m.contains != "":
		return "{contains: " + quoteValue(m.contains) + "}"
	case m.binary != nil && *m.binary == "":
		return "{binary: empty}"
	case m.binary != nil:
		return "{binary: {base64: " + quoteValue(base64.StdEncoding.EncodeToString([]byte(*m.binary))) + "}}"
	case m.opcode == frame.Text:
		return "{opcode: text}"
	case m.opcode == frame.Binary:
		return "{opcode: binary}"
	case m.close != nil:
		return "{close: " + codesYAML(m.close) + "}"
	case m.status != nil:
		return "{status: " + codesYAML(m.status) + "}"
	}
	var out []string
	for _, c := range m.json {
		value := map[jsonKind]string{jsonAny: `"*"`, jsonNumber: c.text, jsonTrue: "true", jsonFalse: "false", jsonNull: "null"}[c.kind]
		if c.kind == jsonString {
			value = quoteValue(c.text)
		}
		out = append(out, quoteValue(c.path.String())+": "+value)
	}
	if m.packed {
		return "{msgpack: " + braces(out) + "}"
	}
	return "{json: " + braces(out) + "}"
}

func codesYAML(ranges []codeRange) string {
	var out []string
	for _, r := range ranges {
		if r.low == r.high {
			out = append(out, strconv.Itoa(int(r.low)))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", r.low, r.high))
		}
	}
	return oneOrFlow(out)
}

// quote returns a text in YAML, or nothing for an empty one.
func quote(s string) string {
	if s == "" {
		return ""
	}
	return quoteValue(s)
}

// quoteValue returns a text in YAML: without quotes if it cannot be taken for anything else, otherwise in single quotes, or in double
// quotes if it has characters that are not printable.
func quoteValue(s string) string {
	if isPlain(s) {
		return s
	}
	if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(s) // whose escapes YAML knows, too
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// isPlain reports whether a text needs no quotes anywhere.
func isPlain(s string) bool {
	if s == "" || len(s) > 200 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" {
		return false
	}
	if first := s[0] | 0x20; first < 'a' || first > 'z' {
		return false
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "none", "empty", "quiet", "yes", "no", "on", "off", "y", "n", "inf", "nan":
		return false
	}
	return true
}
