package profile

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// failover writes what a profile says about failover, with everything that it inherits.
func (w *writer) failover(f *Failover) {
	d := newFailover()
	verdict, why, lastWord, pace, stall, times := f.Verdict.String(), quote(f.Why), "", "", "", ""
	if f.Verdict == Never && f.Why == unknownWhy {
		verdict, why = "", ""
	}
	switch usual := slices.Equal(f.lastWord.close, d.lastWord.close); {
	case usual:
		lastWord = pairs("messages", matchersYAML(f.lastWord.messages))
	case len(f.lastWord.close) == 0 && len(f.lastWord.messages) == 0:
		lastWord = "none"
	case len(f.lastWord.close) == 0:
		lastWord = pairs("close", "none", "messages", matchersYAML(f.lastWord.messages))
	default:
		lastWord = pairs("close", codesYAML(f.lastWord.close), "messages", matchersYAML(f.lastWord.messages))
	}
	switch f.Pace {
	case d.Pace:
	case 0:
		pace = "none"
	default:
		pace = strconv.FormatFloat(f.Pace, 'f', -1, 64)
	}
	if f.Stall != StallNone {
		stall = f.Stall.String()
	}
	if f.Continues {
		times = timesNames[1]
	}
	prependMost := ""
	if f.prepend.most > 0 {
		prependMost = strconv.Itoa(f.prepend.most)
	}
	w.mapping("failover", "verdict", verdict, "why", why, "only", parametersYAML(f.only), "unless", parametersYAML(f.unless), "audio", f.audio.yaml(), "configure", entriesYAML(f.configure, (*configureSpec).yaml),
		"forget", matchersYAML(f.forget), "answered", entriesYAML(f.answered, (*answerSpec).yaml), "final", matchersYAML(f.final),
		"partial", matchersYAML(f.partial), "heartbeat", matchersYAML(f.heartbeat), "shift", entriesYAML(f.shift, (*timeSpec).yaml),
		"renumber", entriesYAML(f.renumber, (*numberSpec).yaml), "hide", entriesYAML(f.hide, (*hideSpec).yaml),
		"prepend", pairs("path", quote(f.prepend.path.String()), "final", f.prepend.final.yaml(), "most", prependMost),
		"force", pairs("send", messagesYAML(f.force.send), "until", matchersYAML(f.force.until)),
		"last-word", lastWord, "pace", pace, "stall", stall, "times", times)
}

// pairs returns a mapping of keys and values in turn, without empty values; empty if there is none.
func pairs(list ...string) string {
	var out []string
	for i := 0; i < len(list); i += 2 {
		if list[i+1] != "" {
			out = append(out, list[i]+": "+list[i+1])
		}
	}
	return braces(out)
}

// entriesYAML returns a list, one entry in a line, as block lists are easier to read than long lines.
func entriesYAML[T any](list []T, yaml func(*T) string) string {
	var out []string
	for i := range list {
		out = append(out, yaml(&list[i]))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return "\n        - " + strings.Join(out, "\n        - ")
}

// parametersYAML returns parameters in the order in which they were written.
func parametersYAML(list []parameterValue) string {
	var names []string
	values := make(map[string][]string)
	for _, p := range list {
		if values[p.name] == nil {
			names = append(names, p.name)
		}
		values[p.name] = append(values[p.name], quoteValue(p.value))
	}
	var out []string
	for _, name := range names {
		out = append(out, quoteValue(name)+": "+oneOrFlow(values[name]))
	}
	return pairs("query", braces(out))
}

func (a *audioSpec) yaml() string {
	channels := a.channels.yaml()
	if channels == "1" {
		channels = ""
	}
	return pairs("messages", matchersYAML(a.messages), "base64", quote(a.base64.String()), "floats", quote(a.floats),
		"encoding", a.encoding.yaml(), "rate", a.rate.yaml(), "channels", channels, "least", durationYAML(a.least, 0))
}

func (c *choiceSpec) yaml() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		names = append(names, quoteValue(name)+": "+c.names[name])
	}
	if c.query == "" && c.message == nil && c.within == "" && names == nil {
		return c.value
	}
	return pairs("default", c.value, "query", quote(c.query), "message", quote(c.message.String()), "within", quote(c.within), "names", braces(names))
}

func (c *configureSpec) yaml() string {
	return pairs("messages", matchersYAML(c.messages), "resend", resendNames[c.resend], "except", matchersYAML(c.except))
}

func (a *answerSpec) yaml() string {
	var times []string
	for _, path := range a.times {
		times = append(times, quoteValue(path.String()))
	}
	unit := ""
	if a.by == MeansTime || a.by == MeansNext {
		unit = unitNames[a.unit]
	}
	return pairs("messages", matchersYAML(a.messages), "by", meansNames[a.by], "times", oneOrFlow(times), "where", a.where.yaml(),
		"most", yes(a.most), "unit", unit, "margin", durationYAML(a.margin, 0), "marker", matchersYAML(a.marker))
}

func (t *timeSpec) yaml() string {
	return pairs("path", quoteValue(t.path.String()), "unit", unitNames[t.unit], "when", matchersYAML(t.when))
}

func (c *numberSpec) yaml() string {
	return pairs("path", quoteValue(c.path.String()), "first", strconv.FormatInt(c.first, 10), "unless", matchersYAML(c.unless))
}

func (h *hideSpec) yaml() string {
	return pairs("messages", matchersYAML(h.messages), "most", numberYAML(h.most, 0))
}

// yaml returns a mapping with the condition, or nothing for nil.
func (c *condition) yaml() string {
	if c == nil {
		return ""
	}
	m := matcher{json: []condition{*c}}
	text := m.yaml() // {json: {...}}
	return strings.TrimSuffix(strings.TrimPrefix(text, "{json: "), "}")
}
