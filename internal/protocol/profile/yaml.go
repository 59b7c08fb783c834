package profile

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
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
	body := p.spec.yaml()
	if body == nil {
		body = emptyYAML()
	}
	named := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word(p.Name), body}}
	return encode(block(key("profiles", named)))
}

func (s *spec) yaml() *yaml.Node {
	d := newSpec()
	var accepted []*yaml.Node
	for i, name := range riskNames {
		if s.unsafe>>i&1 != 0 {
			accepted = append(accepted, word(name))
		}
	}
	leaveUntil := matchersYAML(s.leave.until)
	if leaveUntil == nil {
		leaveUntil = when(len(s.leave.send) > 0, "close")
	}
	end := block(
		key("client", matchersYAML(s.end.client)), key("server", when(s.end.closes, "close")), key("resets", when(s.end.resets, "true")),
		key("timeout", durationYAML(s.end.timeout, d.end.timeout)),
	)
	leave := block(
		key("send", messagesYAML(s.leave.send)), key("until", leaveUntil), key("timeout", durationYAML(s.leave.timeout, d.leave.timeout)),
	)
	tag := block(
		key("start", matchersYAML(s.tag.start)), key("path", quote(s.tag.path.String())), key("server", quote(s.tag.server.String())),
		key("done", matchersYAML(s.tag.done)), key("failed", matchersYAML(s.tag.failed)),
	)
	reset := block(
		key("send", messagesYAML(s.reset.send)), key("until", s.reset.untilYAML()), key("settle", durationYAML(s.reset.settle, d.reset.settle)),
		key("timeout", durationYAML(s.reset.timeout, d.reset.timeout)),
	)
	keepalive := block(
		key("ping", durationYAML(s.keepalive.ping, 0)), key("send", messagesYAML(s.keepalive.send)), key("every", durationYAML(s.keepalive.every, 0)),
		key("answer", matchersYAML(s.keepalive.answer)),
	)
	timeouts := block(
		key("greeting", durationYAML(s.timeouts.greeting, d.timeouts.greeting)), key("ready", durationYAML(s.timeouts.ready, d.timeouts.ready)),
		key("busy", durationYAML(s.timeouts.busy, 0)),
	)
	limits := block(
		key("sessions", numberYAML(s.limits.Sessions, d.limits.Sessions)), key("age", durationYAML(s.limits.Age, d.limits.Age)),
		key("idle", durationYAML(s.limits.Idle, d.limits.Idle)), key("message", numberYAML(s.limits.Message, d.limits.Message)),
		key("greeting", numberYAML(s.limits.Greeting, d.limits.Greeting)),
	)
	tell := block(key("queue", quote(s.tell.queue)), key("moved", quote(s.tell.moved)), key("degraded", quote(s.tell.degraded)))
	return block(
		key("summary", quote(s.summary)), key("source", quote(s.source)),
		key("client", s.script.yaml()),
		key("reuse", when(s.reuse != OneShot, s.reuse.String())), key("reason", quote(s.reason)), key("doubt", quote(s.doubt)), key("unsafe", oneOrList(accepted)),
		key("predial", when(s.predial != d.predial, s.predial.String())), key("subprotocol", quote(s.subprotocol)),
		key("setup", messagesYAML(s.setup)), key("greeting", matchersYAML(s.greeting)), key("ready", matchersYAML(s.ready)), key("busy", matchersYAML(s.busy)),
		key("end", end), key("leave", leave), key("replace", when(s.replace, "reset")), key("early", when(s.early != d.early, s.early.String())),
		key("sticky", matchersYAML(s.sticky)), key("unanswered", matchersYAML(s.unanswered)), key("answers", matchersYAML(s.answers)),
		key("tag", tag), key("stateless", when(s.stateless, "true")), key("reset", reset),
		key("keepalive", keepalive), key("timeouts", timeouts), key("limits", limits),
		key("variant", s.variant.yaml()), key("failover", s.failover.yaml()), key("tell", tell),
	)
}

func (v *variantSpec) yaml() *yaml.Node {
	var allow, defaults []pair
	for _, name := range slices.Sorted(maps.Keys(v.allow)) {
		allow = append(allow, key(name, list(quoteEach(v.allow[name]))))
	}
	for _, name := range slices.Sorted(maps.Keys(v.defaults)) {
		defaults = append(defaults, key(name, quoteValue(v.defaults[name])))
	}
	private := inline(
		key("query", list(quoteEach(v.privateQuery))), key("headers", list(quoteEach(v.privateHeaders))), key("subprotocol", when(v.privateSubprotocol, "true")),
	)
	return block(
		key("query", list(quoteEach(v.query))), key("headers", list(quoteEach(v.headers))), key("allow", inline(allow...)), key("default", inline(defaults...)),
		key("private", private), key("unlisted", when(v.dialUnlisted, "dial")), key("other", when(v.refuseOther, "refuse")),
		key("max", numberYAML(v.max, defaultVariants)),
	)
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

// when returns a word if a condition holds.
func when(holds bool, value string) *yaml.Node {
	if !holds {
		return nil
	}
	return word(value)
}

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

func numberYAML(value, usual int) *yaml.Node { return when(value != usual, strconv.Itoa(value)) }

func durationYAML(value, usual time.Duration) *yaml.Node {
	return when(value != usual, durationText(value))
}

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
		return inline(key("zeros", word(strconv.Itoa(m.zeros))))
	case m.Binary:
		return bytesYAML(m.payload)
	}
	return quoteValue(m.payload)
}

func bytesYAML(payload string) *yaml.Node {
	return inline(key("base64", quoteValue(base64.StdEncoding.EncodeToString([]byte(payload)))))
}

func (r *resetSpec) untilYAML() *yaml.Node {
	if r.quiet {
		return word("quiet")
	}
	var out []*yaml.Node
	if r.count > 0 {
		out = append(out, inline(key("count", word(strconv.Itoa(r.count)))))
	}
	return oneOrList(append(out, each(r.until, (*matcher).yaml)...))
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
		return word(strconv.Itoa(int(r.low)))
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
