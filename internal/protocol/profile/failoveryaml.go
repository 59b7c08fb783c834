package profile

import (
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// yaml returns what a profile says about failover, with everything that it inherits.
func (f *Failover) yaml() *yaml.Node {
	d := newFailover()
	var verdict, why, lastWord, pace *yaml.Node
	if f.Verdict != Never || f.Why != unknownWhy {
		verdict, why = word(f.Verdict.String()), quote(f.Why)
	}
	switch messages := matchersYAML(f.lastWord.messages); {
	case slices.Equal(f.lastWord.close, d.lastWord.close):
		lastWord = pairs{{"messages", messages}}.inline()
	case len(f.lastWord.close) > 0:
		lastWord = pairs{{"close", codesYAML(f.lastWord.close)}, {"messages", messages}}.inline()
	case messages != nil:
		lastWord = pairs{{"close", word("none")}, {"messages", messages}}.inline()
	default:
		lastWord = word("none")
	}
	switch f.Pace {
	case d.Pace:
	case 0:
		pace = word("none")
	default:
		pace = word(strconv.FormatFloat(f.Pace, 'f', -1, 64))
	}
	prepend := pairs{
		{"path", quote(f.prepend.path.String())}, {"final", f.prepend.final.yaml()}, {"most", when(f.prepend.most > 0, strconv.Itoa(f.prepend.most))},
	}
	force := pairs{{"send", messagesYAML(f.force.send)}, {"until", matchersYAML(f.force.until)}}
	return pairs{
		{"verdict", verdict},
		{"why", why},
		{"only", parametersYAML(f.only)},
		{"unless", parametersYAML(f.unless)},
		{"audio", f.audio.yaml()},
		{"configure", entriesYAML(f.configure, (*configureSpec).yaml)},
		{"forget", matchersYAML(f.forget)},
		{"answered", entriesYAML(f.answered, (*answerSpec).yaml)},
		{"final", matchersYAML(f.final)},
		{"partial", matchersYAML(f.partial)},
		{"heartbeat", matchersYAML(f.heartbeat)},
		{"shift", entriesYAML(f.shift, (*timeSpec).yaml)},
		{"renumber", entriesYAML(f.renumber, (*numberSpec).yaml)},
		{"hide", entriesYAML(f.hide, (*hideSpec).yaml)},
		{"prepend", prepend.inline()},
		{"force", force.inline()},
		{"last-word", lastWord},
		{"pace", pace},
		{"stall", when(f.Stall != StallNone, f.Stall.String())},
		{"times", when(f.Continues, timesNames[1])},
	}.block()
}

// entriesYAML returns a list, one entry in a line, as block lists are easier to read than long lines.
func entriesYAML[T any](entries []T, entryYAML func(*T) *yaml.Node) *yaml.Node {
	n := oneOrList(each(entries, entryYAML))
	if len(entries) > 1 {
		n.Style = 0
	}
	return n
}

// parametersYAML returns parameters in the order in which they were written.
func parametersYAML(parameters []parameterValue) *yaml.Node {
	var names []string
	values := make(map[string][]*yaml.Node)
	for _, p := range parameters {
		if values[p.name] == nil {
			names = append(names, p.name)
		}
		values[p.name] = append(values[p.name], quoteValue(p.value))
	}
	var query pairs
	for _, name := range names {
		query = append(query, pair{name, oneOrList(values[name])})
	}
	return pairs{{"query", query.inline()}}.inline()
}

func (a *audioSpec) yaml() *yaml.Node {
	channels := a.channels.yaml()
	if channels != nil && channels.Value == "1" {
		channels = nil
	}
	return pairs{
		{"messages", matchersYAML(a.messages)},
		{"base64", quote(a.base64.String())},
		{"floats", quote(a.floats)},
		{"encoding", a.encoding.yaml()},
		{"rate", a.rate.yaml()},
		{"channels", channels},
		{"least", durationYAML(a.least, 0)},
	}.inline()
}

func (c *choiceSpec) yaml() *yaml.Node {
	var names pairs
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		names = append(names, pair{name, word(c.names[name])})
	}
	value := when(c.value != "", c.value)
	if c.query == "" && c.message == nil && c.within == "" && names == nil {
		return value
	}
	return pairs{
		{"default", value},
		{"query", quote(c.query)},
		{"message", quote(c.message.String())},
		{"within", quote(c.within)},
		{"names", names.inline()},
	}.inline()
}

func (c *configureSpec) yaml() *yaml.Node {
	return pairs{
		{"messages", matchersYAML(c.messages)}, {"resend", word(resendNames[c.resend])}, {"except", matchersYAML(c.except)},
	}.inline()
}

func (a *answerSpec) yaml() *yaml.Node {
	times := each(a.times, func(path *jsonPath) *yaml.Node { return quoteValue(path.String()) })
	return pairs{
		{"messages", matchersYAML(a.messages)},
		{"by", word(meansNames[a.by])},
		{"times", oneOrList(times)},
		{"where", a.where.yaml()},
		{"most", when(a.most, "true")},
		{"unit", when(a.by == MeansTime || a.by == MeansNext, unitNames[a.unit])},
		{"margin", durationYAML(a.margin, 0)},
		{"marker", matchersYAML(a.marker)},
	}.inline()
}

func (t *timeSpec) yaml() *yaml.Node {
	return pairs{{"path", quoteValue(t.path.String())}, {"unit", word(unitNames[t.unit])}, {"when", matchersYAML(t.when)}}.inline()
}

func (c *numberSpec) yaml() *yaml.Node {
	return pairs{
		{"path", quoteValue(c.path.String())}, {"first", word(strconv.FormatInt(c.first, 10))}, {"unless", matchersYAML(c.unless)},
	}.inline()
}

func (h *hideSpec) yaml() *yaml.Node {
	return pairs{{"messages", matchersYAML(h.messages)}, {"most", numberYAML(h.most, 0)}}.inline()
}

// yaml returns a mapping with the condition, or nil for nil.
func (c *condition) yaml() *yaml.Node {
	if c == nil {
		return nil
	}
	return conditionsYAML(*c)
}
