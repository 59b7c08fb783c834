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
		lastWord = inline(key("messages", messages))
	case len(f.lastWord.close) > 0:
		lastWord = inline(key("close", codesYAML(f.lastWord.close)), key("messages", messages))
	case messages != nil:
		lastWord = inline(key("close", word("none")), key("messages", messages))
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
	prepend := inline(
		key("path", quote(f.prepend.path.String())), key("final", f.prepend.final.yaml()), key("most", when(f.prepend.most > 0, strconv.Itoa(f.prepend.most))),
	)
	return block(
		key("verdict", verdict), key("why", why), key("only", parametersYAML(f.only)), key("unless", parametersYAML(f.unless)), key("audio", f.audio.yaml()),
		key("configure", entriesYAML(f.configure, (*configureSpec).yaml)), key("forget", matchersYAML(f.forget)),
		key("answered", entriesYAML(f.answered, (*answerSpec).yaml)),
		key("final", matchersYAML(f.final)), key("partial", matchersYAML(f.partial)), key("heartbeat", matchersYAML(f.heartbeat)),
		key("shift", entriesYAML(f.shift, (*timeSpec).yaml)), key("renumber", entriesYAML(f.renumber, (*numberSpec).yaml)),
		key("hide", entriesYAML(f.hide, (*hideSpec).yaml)), key("prepend", prepend),
		key("last-word", lastWord), key("pace", pace), key("stall", when(f.Stall != StallNone, f.Stall.String())), key("times", when(f.Continues, timesNames[1])),
	)
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
	var query []pair
	for _, name := range names {
		query = append(query, key(name, oneOrList(values[name])))
	}
	return inline(key("query", inline(query...)))
}

func (a *audioSpec) yaml() *yaml.Node {
	channels := a.channels.yaml()
	if channels != nil && channels.Value == "1" {
		channels = nil
	}
	return inline(
		key("messages", matchersYAML(a.messages)), key("base64", quote(a.base64.String())), key("floats", quote(a.floats)),
		key("encoding", a.encoding.yaml()), key("rate", a.rate.yaml()), key("channels", channels), key("least", durationYAML(a.least, 0)),
	)
}

func (c *choiceSpec) yaml() *yaml.Node {
	var names []pair
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		names = append(names, key(name, word(c.names[name])))
	}
	value := when(c.value != "", c.value)
	if c.query == "" && c.message == nil && c.within == "" && names == nil {
		return value
	}
	return inline(
		key("default", value), key("query", quote(c.query)), key("message", quote(c.message.String())), key("within", quote(c.within)),
		key("names", inline(names...)),
	)
}

func (c *configureSpec) yaml() *yaml.Node {
	return inline(
		key("messages", matchersYAML(c.messages)), key("resend", word(resendNames[c.resend])), key("except", matchersYAML(c.except)),
	)
}

func (a *answerSpec) yaml() *yaml.Node {
	times := each(a.times, func(path *jsonPath) *yaml.Node { return quoteValue(path.String()) })
	return inline(
		key("messages", matchersYAML(a.messages)), key("by", word(meansNames[a.by])), key("times", oneOrList(times)), key("where", a.where.yaml()),
		key("most", when(a.most, "true")), key("unit", when(a.by == MeansTime || a.by == MeansNext, unitNames[a.unit])),
		key("margin", durationYAML(a.margin, 0)), key("marker", matchersYAML(a.marker)),
	)
}

func (t *timeSpec) yaml() *yaml.Node {
	return inline(key("path", quoteValue(t.path.String())), key("unit", word(unitNames[t.unit])), key("when", matchersYAML(t.when)))
}

func (c *numberSpec) yaml() *yaml.Node {
	return inline(
		key("path", quoteValue(c.path.String())), key("first", word(strconv.FormatInt(c.first, 10))), key("unless", matchersYAML(c.unless)),
	)
}

func (h *hideSpec) yaml() *yaml.Node {
	return inline(key("messages", matchersYAML(h.messages)), key("most", numberYAML(h.most, 0)))
}

// yaml returns a mapping with the condition, or nil for nil.
func (c *condition) yaml() *yaml.Node {
	if c == nil {
		return nil
	}
	return conditionsYAML(*c)
}
