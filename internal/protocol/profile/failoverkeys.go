package profile

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// failoverAt is for what a profile says about failover.
func failoverAt(f *Failover) value {
	v := sectionAt(f, newFailover(), (*Failover).fields).check(func(r *reader, _ *strictyaml.Node) {
		if _, own := r.own["failover.verdict"]; own && f.Verdict == Full && f.Why == unknownWhy {
			f.Why = ""
		}
	})
	read := v.read
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		before := len(r.problems)
		read(r, path, n)
		f.faulty = len(r.problems) > before
	}
	return v
}

// fields are the keys of failover.
func (f *Failover) fields() []field {
	return []field{
		{"verdict", wordAt(&f.Verdict, verdictNames).show(f.Why != unknownWhy)},
		{"why", textAt(&f.Why)},
		{"only", bind(&f.only, (*reader).parameters, parametersYAML)},
		{"unless", bind(&f.unless, (*reader).parameters, parametersYAML)},
		{"audio", sectionAt(&f.audio, newFailover().audio, (*audioSpec).fields).inline()},
		{"configure", entriesAt(&f.configure, "configure", (*configureSpec).fields, nil)},
		{"forget", matchersAt(&f.forget)},
		{"answered", entriesAt(&f.answered, "answered", (*answerSpec).fields, (*reader).checkAnswer)},
		{"final", matchersAt(&f.final)},
		{"partial", matchersAt(&f.partial)},
		{"heartbeat", matchersAt(&f.heartbeat)},
		{"shift", entriesAt(&f.shift, "shift", (*timeSpec).fields, nil)},
		{"renumber", entriesAt(&f.renumber, "renumber", (*numberSpec).fields, nil)},
		{"hide", entriesAt(&f.hide, "hide", (*hideSpec).fields, nil)},
		{"prepend", sectionAt(&f.prepend, prependSpec{}, (*prependSpec).fields).inline()},
		{"last-word", lastWordAt(&f.lastWord)},
		{"pace", bind(&f.Pace, (*reader).pace, paceYAML)},
		{"stall", wordAt(&f.Stall, stallNames)},
		{"times", choiceAt(&f.Continues, "session", "connection")},
		{"force", value{
			read:   func(*reader, string, *strictyaml.Node) { f.Force = true },
			print:  func() *yaml.Node { return nil },
			hidden: true,
		}},
	}
}

// parameters reads parameters of clients' URLs: names and values, or lists of values.
func (r *reader) parameters(n *strictyaml.Node) (list []parameterValue, ok bool) {
	if isNone(n) {
		return nil, true
	}
	for _, e := range r.fields(n, "query") {
		for _, e := range r.mapping(e.value, "a mapping from names of parameters to values") {
			for _, item := range items(e.value) {
				if value, ok := r.Scalar(item); ok {
					list = append(list, parameterValue{e.key, value})
				}
			}
		}
	}
	return list, true
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

// needs reports a key of an entry that is missing.
func (r *reader) needs(fields []entry, at place, what string, keys ...string) bool {
	for _, key := range keys {
		if !slices.ContainsFunc(fields, func(f entry) bool { return f.key == key }) {
			r.problem(at, "%s needs %s", what, key)
			return false
		}
	}
	return true
}

// The most samples a second and channels of audio.
const (
	minRate     = 1000
	maxRate     = 384000
	maxChannels = 64
)

func (a *audioSpec) fields() []field {
	return slices.Concat([]field{{"messages", matchersAt(&a.messages)}}, a.outputFields(), []field{
		{"channels", propertyAt(&a.channels, wholeFrom(1, maxChannels))},
		{"least", durationAt(&a.least)},
	})
}

// outputFields are the keys that also say what the audio of a server means.
func (a *audioSpec) outputFields() []field {
	return []field{
		{"base64", pathAt(&a.base64, parsePath).orNone()},
		{"floats", textAt(&a.floats).orNone()},
		{"encoding", propertyAt(&a.encoding, func(r *reader, n *strictyaml.Node) (string, bool) {
			i, ok := r.word(n, encodingNames...)
			return encodingNames[i], ok
		})},
		{"rate", propertyAt(&a.rate, wholeFrom(minRate, maxRate))},
	}
}

// wholeFrom returns a function that reads a whole number in a range as it is written.
func wholeFrom(low, high int64) func(*reader, *strictyaml.Node) (string, bool) {
	return func(r *reader, n *strictyaml.Node) (string, bool) {
		v, ok := r.number(n, low, high)
		return strconv.FormatInt(v, 10), ok
	}
}

// propertyAt is for a property of the audio: a value, or a mapping that also says how clients name another.
func propertyAt(to *choiceSpec, parse func(*reader, *strictyaml.Node) (string, bool)) value {
	bare := func(value string) *yaml.Node {
		if value == "" {
			return nil
		}
		return word(value)
	}
	named := func(to *string) value { // by a text that is not empty
		return textAt(to).orNone().check(func(r *reader, n *strictyaml.Node) {
			if *to == "" && isText(n) && !isNone(n) {
				r.problem(placeOf(n), "empty text: use a name, or none")
			}
		})
	}
	v := sectionAt(to, choiceSpec{}, func(c *choiceSpec) []field {
		return []field{
			{"default", bind(&c.value, parse, bare)},
			{"query", named(&c.query)},
			{"message", pathAt(&c.message, parsePath).orNone()},
			{"within", named(&c.within)},
			{"names", mapAt(&c.names, "a mapping from clients' names to values", parse, bare).orNone()},
		}
	}).inline()
	read, print := v.read, v.print
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		if isMapping(n) {
			read(r, path, n)
		} else if v, ok := parse(r, n); ok {
			*to = choiceSpec{value: v}
		}
	}
	v.print = func() *yaml.Node {
		if to.query == "" && to.message == nil && to.within == "" && len(to.names) == 0 {
			return bare(to.value)
		}
		return print()
	}
	return v
}

func (c *configureSpec) fields() []field {
	return []field{
		{"messages", matchersAt(&c.messages).need()},
		{"resend", wordAt(&c.resend, resendNames).show(true)},
		{"except", matchersAt(&c.except)},
	}
}

func (a *answerSpec) fields() []field {
	times := bind(&a.times, func(r *reader, n *strictyaml.Node) (paths []jsonPath, ok bool) {
		for _, item := range items(n) {
			if path, ok := r.path(item, parseItemsPath); ok {
				paths = append(paths, path)
			}
		}
		return paths, true
	}, func(paths []jsonPath) *yaml.Node {
		return oneOrList(each(paths, func(path *jsonPath) *yaml.Node { return path.yaml() }))
	})
	return []field{
		{"messages", matchersAt(&a.messages).need()},
		{"by", wordAt(&a.by, meansNames).need()},
		{"times", times},
		{"where", conditionAt(&a.where, "where")},
		{"most", booleanAt(&a.most)},
		{"unit", wordAt(&a.unit, unitNames).show(a.isTimed())},
		{"margin", durationAt(&a.margin)},
		{"marker", matchersAt(&a.marker)},
		{"accepted", matchersAt(&a.accepted)},
		{"refused", matchersAt(&a.refused)},
		{"id", pathAt(&a.id, parsePath)},
	}
}

// isTimed reports whether the answer says up to when it goes.
func (a *answerSpec) isTimed() bool { return a.by == MeansTime || a.by == MeansNext }

// checkAnswer finds keys of answered that do not fit together.
func (r *reader) checkAnswer(given []entry, at place, a *answerSpec) {
	by := "answered by " + meansNames[a.by]
	for _, e := range given {
		switch {
		case slices.Contains([]string{"times", "where", "most", "unit"}, e.key) && !a.isTimed():
			r.problem(at, "%s means nothing for %s: remove it, or use by: time or next", e.key, by)
		case slices.Contains([]string{"marker", "accepted", "refused", "id"}, e.key) && a.by != MeansMarker:
			r.problem(at, "%s means nothing for %s: remove it, or use by: marker", e.key, by)
		case e.key == "margin" && a.by != MeansTime && a.by != MeansUtterance:
			r.problem(at, "margin means nothing for %s: remove it, or use by: time or utterance", by)
		}
	}
	switch {
	case a.isTimed() && !r.needs(given, at, by, "times", "unit"), a.by == MeansMarker && !r.needs(given, at, by, "marker"):
	case a.id != nil && a.accepted == nil:
		r.problem(at, "id needs accepted: set it to the server's receipts, which have at this path what their answers repeat")
	case a.isTimed() && (a.where != nil || a.most) && !slices.ContainsFunc(a.times, jsonPath.hasItems):
		r.problem(at, "where and most choose among the items of a list: use a path with [] in times, such as segments[].end")
	case len(a.times) > maxEntries:
		r.problem(at, "%d paths in times: use at most %d", len(a.times), maxEntries)
	}
}

// conditionAt is for a mapping with one condition.
func conditionAt(to **condition, name string) value {
	return bind(to, func(r *reader, n *strictyaml.Node) (*condition, bool) {
		list, ok := r.conditions(n)
		if len(list) > 1 {
			r.problem(placeOf(n), "%s has %d conditions: use one, such as {completed: true}", name, len(list))
		}
		if !ok || len(list) > 1 {
			return nil, false
		}
		return &list[0], true
	}, (*condition).yaml)
}

func (t *timeSpec) fields() []field {
	return []field{
		{"path", placedPathAt(&t.path, &t.at)},
		{"unit", wordAt(&t.unit, unitNames).need()},
		{"when", matchersAt(&t.when)},
	}
}

func (c *numberSpec) fields() []field {
	return []field{
		{"path", placedPathAt(&c.path, &c.at)},
		{"first", numberAt(&c.first, 0, 1<<31-1).need()},
		{"unless", matchersAt(&c.unless)},
	}
}

// placedPathAt is for a path that an entry must have, and its place.
func placedPathAt(to *jsonPath, at *place) value {
	return pathAt(to, parseItemsPath).need().check(func(_ *reader, n *strictyaml.Node) { *at = placeOf(n) })
}

func (h *hideSpec) fields() []field {
	return []field{{"messages", matchersAt(&h.messages).need()}, {"most", numberAt(&h.most, 1, 1000)}}
}

func (p *prependSpec) fields() []field {
	return []field{
		{"path", pathAt(&p.path, parsePath)},
		{"final", conditionAt(&p.final, "final").orNone()},
		{"most", numberAt(&p.most, 0, 1000)},
	}
}

// lastWordAt is for how a server ends a session for good: the word none says that it does not.
func lastWordAt(to *lastWordSpec) value {
	v := sectionAt(to, newFailover().lastWord, (*lastWordSpec).fields).inline()
	read, print := v.read, v.print
	v.read = func(r *reader, path string, n *strictyaml.Node) {
		if isNone(n) {
			*to = lastWordSpec{}
			return
		}
		read(r, path, n)
	}
	v.print = func() *yaml.Node {
		if to.close == nil && to.messages == nil {
			return word("none")
		}
		return print()
	}
	return v
}

func (l *lastWordSpec) fields() []field {
	return []field{
		{"close", bind(&l.close, func(r *reader, n *strictyaml.Node) ([]codeRange, bool) {
			return r.codes(n, 1000, 4999, "a close code from 1000 to 4999, or a range such as 4000-4099")
		}, func(codes []codeRange) *yaml.Node {
			if codes == nil {
				return word("none")
			}
			return codesYAML(codes)
		}).orNone()},
		{"messages", matchersAt(&l.messages)},
	}
}

// maxPace is the fastest replay that a profile may ask for.
const maxPace = 1000

// pace reads how many times faster than real time a replay may be. The word none stands for no limit.
func (r *reader) pace(n *strictyaml.Node) (pace float64, ok bool) {
	wanted := fmt.Sprintf("a number from 1 to %d (times real time), or none for no limit", maxPace)
	if isNone(n) {
		return 0, true
	}
	if kind := strictyaml.KindOf(n); kind != strictyaml.Integer && kind != strictyaml.Float {
		r.Wrong(n, wanted)
		return 0, false
	}
	pace, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !(pace >= 1 && pace <= maxPace) {
		r.problem(placeOf(n), "%s is out of range: use %s", n.Value, wanted)
		return 0, false
	}
	return pace, true
}

func paceYAML(pace float64) *yaml.Node {
	if pace == 0 {
		return word("none")
	}
	return word(strconv.FormatFloat(pace, 'f', -1, 64))
}
