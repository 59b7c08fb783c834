package profile

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// YAML returns the profile in canonical form: a profile that inherits nothing, with its keys in the order of the documentation, and
// without keys that only repeat a default. It has no comments; see [BuiltInYAML] for those of built-in profiles. Parsing it gives an
// equal profile.
func (p *Profile) YAML() []byte {
	usual := newSpec()
	body := printed(p.spec.fields(), usual.fields())
	if body == nil {
		body = emptyYAML()
	}
	named := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word(p.Name), body}}
	return encode(block(key("profiles", named)))
}

// Values are YAML nodes, which package yaml prints. nil stands for a value that need not be printed, since it is the default.

// pair is a key of a mapping with its value.
type pair struct {
	key   string
	value *yaml.Node
}

func key(name string, value *yaml.Node) pair { return pair{name, value} }

// block returns a mapping with each key in its own line, without those that have no value; nil if none has one.
func block(pairs ...pair) *yaml.Node { return mapping(0, pairs) }

// inline does the same for a mapping in one line, in braces.
func inline(pairs ...pair) *yaml.Node { return mapping(yaml.FlowStyle, pairs) }

func mapping(style yaml.Style, pairs []pair) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Style: style}
	for _, p := range pairs {
		if p.value != nil {
			n.Content = append(n.Content, quoteValue(p.key), p.value)
		}
	}
	if n.Content == nil {
		return nil
	}
	return n
}

func emptyYAML() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle} }

// list returns a list in one line; nil for an empty one.
func list(items []*yaml.Node) *yaml.Node {
	if len(items) == 0 {
		return nil
	}
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}

// each returns the items of a list as nodes.
func each[T any](items []T, node func(*T) *yaml.Node) []*yaml.Node {
	nodes := make([]*yaml.Node, len(items))
	for i := range items {
		nodes[i] = node(&items[i])
	}
	return nodes
}

// oneOrList returns a list, or its only item.
func oneOrList(items []*yaml.Node) *yaml.Node {
	if len(items) == 1 {
		return items[0]
	}
	return list(items)
}

// word returns a word, number or other value that is never quoted.
func word(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// quoteValue returns a text: without quotes if it cannot be taken for anything else, otherwise in single quotes, or in double quotes if it has
// characters that are not printable.
func quoteValue(s string) *yaml.Node {
	n := word(s)
	switch {
	case isPlain(s):
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		n.Style = yaml.DoubleQuotedStyle
	default:
		n.Style = yaml.SingleQuotedStyle
	}
	return n
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

// quote returns a text, or nil for an empty one.
func quote(s string) *yaml.Node {
	if s == "" {
		return nil
	}
	return quoteValue(s)
}

func quoteEach(texts []string) []*yaml.Node {
	return each(texts, func(text *string) *yaml.Node { return quoteValue(*text) })
}

func numberYAML[T int | int64](value T) *yaml.Node { return word(strconv.FormatInt(int64(value), 10)) }

// durationText returns a duration without the zeros at the end of Duration.String.
func durationText(value time.Duration) string {
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

func messagesYAML(messages []Message) *yaml.Node { return oneOrList(each(messages, (*Message).yaml)) }

func (m *Message) yaml() *yaml.Node {
	switch {
	case m.zeros > 0:
		return inline(key("zeros", numberYAML(m.zeros)))
	case m.Binary:
		return bytesYAML(m.payload)
	}
	return quoteValue(m.payload)
}

func bytesYAML(payload string) *yaml.Node {
	return inline(key("base64", quoteValue(base64.StdEncoding.EncodeToString([]byte(payload)))))
}

func (u untilSpec) yaml() *yaml.Node {
	if u.quiet {
		return word("quiet")
	}
	var out []*yaml.Node
	if u.count > 0 {
		out = append(out, inline(key("count", numberYAML(u.count))))
	}
	return oneOrList(append(out, each(u.until, (*matcher).yaml)...))
}

func matchersYAML(matchers []matcher) *yaml.Node { return oneOrList(each(matchers, (*matcher).yaml)) }

func (m *matcher) yaml() *yaml.Node {
	switch {
	case m.text != nil:
		return inline(key("text", quoteValue(*m.text)))
	case m.contains != "":
		return inline(key("contains", quoteValue(m.contains)))
	case m.binary != nil && *m.binary == "":
		return inline(key("binary", word("empty")))
	case m.binary != nil:
		return inline(key("binary", bytesYAML(*m.binary)))
	case m.opcode == frame.Text:
		return inline(key("opcode", word("text")))
	case m.opcode == frame.Binary:
		return inline(key("opcode", word("binary")))
	case m.close != nil:
		return inline(key("close", codesYAML(m.close)))
	case m.status != nil:
		return inline(key("status", codesYAML(m.status)))
	}
	conditions := emptyYAML()
	if len(m.json) > 0 {
		conditions = conditionsYAML(m.json...)
	}
	if m.packed {
		return inline(key("msgpack", conditions))
	}
	return inline(key("json", conditions))
}

func conditionsYAML(conditions ...condition) *yaml.Node {
	var out []pair
	for _, c := range conditions {
		var value *yaml.Node
		switch c.kind {
		case jsonAny:
			value = &yaml.Node{Kind: yaml.ScalarNode, Value: "*", Style: yaml.DoubleQuotedStyle}
		case jsonString:
			value = quoteValue(c.text)
		case jsonNumber:
			value = word(c.text)
		case jsonTrue:
			value = word("true")
		case jsonFalse:
			value = word("false")
		case jsonNull:
			value = word("null")
		}
		out = append(out, pair{c.path.String(), value})
	}
	return inline(out...)
}

func codesYAML(ranges []codeRange) *yaml.Node { return oneOrList(each(ranges, (*codeRange).yaml)) }

func (r *codeRange) yaml() *yaml.Node {
	if r.low == r.high {
		return numberYAML(int(r.low))
	}
	return word(fmt.Sprintf("%d-%d", r.low, r.high))
}

// encode returns a value as it is printed; nothing for nil.
func encode(n *yaml.Node) []byte {
	if n == nil {
		return nil
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		panic(err) // it would have a text that is not UTF-8, which cannot come from YAML
	}
	var out bytes.Buffer
	for _, c := range b.String() {
		if c == '\n' || unicode.IsPrint(c) {
			out.WriteRune(c)
		} else { // invisible, in double quotes: the encoder does not escape U+202E, for example
			out.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return out.Bytes()
}

func (p jsonPath) yaml() *yaml.Node { return quote(p.String()) }

// yaml returns a mapping with the condition, or nil for nil.
func (c *condition) yaml() *yaml.Node {
	if c == nil {
		return nil
	}
	return conditionsYAML(*c)
}
