package profile

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// failoverKeys are the keys of failover, in the order in which they are documented and printed.
var failoverKeys = []string{
	"verdict", "why", "only", "unless", "audio", "configure", "forget", "answered", "final", "partial", "heartbeat", "shift", "renumber", "hide", "prepend",
	"last-word", "pace", "stall", "times",
}

// failover reads what a profile says about failover.
func (r *reader) failover(s *spec, n *strictyaml.Node) {
	f := &s.failover
	if isNone(n) {
		*f = newFailover()
		return
	}
	keys := failoverKeys
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "force" {
			f.Force, keys = true, append(slices.Clone(keys), "force")
		}
	}
	for _, e := range r.below(s, "failover", n, keys...) {
		switch e.key {
		case "verdict":
			if i, ok := r.word(e.value, verdictNames...); ok {
				f.Verdict = Verdict(i)
			}
		case "why":
			r.setText(&f.Why, e.value)
		case "only":
			f.only = r.parameters(s, e)
		case "unless":
			f.unless = r.parameters(s, e)
		case "audio":
			r.audio(s, e.value)
		case "configure":
			f.configure = readEntries(r, e.value, r.configure, "messages", "resend", "except")
		case "forget":
			f.forget = r.matchers(e.value, messageKeys)
		case "answered":
			f.answered = readEntries(r, e.value, r.answered, "messages", "by", "times", "where", "most", "unit", "margin", "marker")
		case "final":
			f.final = r.matchers(e.value, messageKeys)
		case "partial":
			f.partial = r.matchers(e.value, messageKeys)
		case "heartbeat":
			f.heartbeat = r.matchers(e.value, messageKeys)
		case "shift":
			f.shift = readEntries(r, e.value, r.shift, "path", "unit", "when")
		case "renumber":
			f.renumber = readEntries(r, e.value, r.renumber, "path", "first", "unless")
		case "hide":
			f.hide = readEntries(r, e.value, r.hide, "messages", "most")
		case "prepend":
			r.prepend(s, e.value)
		case "last-word":
			r.lastWord(s, e.value)
		case "pace":
			r.pace(&f.Pace, e.value)
		case "stall":
			if i, ok := r.word(e.value, stallNames...); ok {
				f.Stall = StallSign(i)
			}
		case "times":
			if i, ok := r.word(e.value, timesNames...); ok {
				f.Continues = i == 1
			}
		}
	}
	if _, own := s.own["failover.verdict"]; own && f.Verdict == Full && f.Why == unknownWhy {
		f.Why = ""
	}
}

// timesNames are the words for what the times in results begin with, see Failover.Continues.
var timesNames = []string{"session", "connection"}

// readEntries reads one mapping, or a list of mappings, with these keys. The word none is an empty list.
func readEntries[T any](r *reader, n *strictyaml.Node, read func([]entry, place) (T, bool), keys ...string) (list []T) {
	if isNone(n) {
		return nil
	}
	for _, item := range items(n) {
		before := len(r.problems)
		fields := r.fields(item, keys...)
		if len(fields) == 0 && len(r.problems) == before {
			r.problem(placeOf(item), "empty entry: use a mapping with %s", spelling.OneOf(keys))
		}
		if len(r.problems) > before {
			for _, f := range fields { // what else is wrong with it
				read([]entry{f}, placeOf(item))
			}
			continue
		}
		if v, ok := read(fields, placeOf(item)); ok && len(r.problems) == before {
			list = append(list, v)
		}
	}
	return list
}

// parameters reads parameters of clients' URLs: names and values, or lists of values.
func (r *reader) parameters(s *spec, e entry) (list []parameterValue) {
	if isNone(e.value) {
		return nil
	}
	for _, e := range r.below(s, "failover."+e.key, e.value, "query") {
		for _, e := range r.mapping(e.value, "a mapping from names of parameters to values") {
			for _, item := range items(e.value) {
				if value, ok := r.Scalar(item); ok {
					list = append(list, parameterValue{e.key, value})
				}
			}
		}
	}
	return list
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

func (r *reader) audio(s *spec, n *strictyaml.Node) {
	a := &s.failover.audio
	if isNone(n) {
		*a = newFailover().audio
		return
	}
	for _, e := range r.below(s, "failover.audio", n, "messages", "base64", "floats", "encoding", "rate", "channels", "least") {
		switch e.key {
		case "messages":
			a.messages = r.matchers(e.value, messageKeys)
		case "base64":
			a.base64 = nil
			if !isNone(e.value) {
				r.setPath(&a.base64, e.value)
			}
		case "floats":
			a.floats = ""
			if !isNone(e.value) {
				r.setText(&a.floats, e.value)
			}
		case "encoding":
			r.choice(s, &a.encoding, e, r.encodingName)
		case "rate":
			r.choice(s, &a.rate, e, r.rateName)
		case "channels":
			r.choice(s, &a.channels, e, r.channelsName)
		case "least":
			r.setDuration(&a.least, e.value)
		}
	}
}

// encodingName reads the name of an encoding.
func (r *reader) encodingName(n *strictyaml.Node) (string, bool) {
	i, ok := r.word(n, encodingNames...)
	return encodingNames[max(0, i)], ok
}

// The most samples a second and channels of audio.
const (
	minRate     = 1000
	maxRate     = 384000
	maxChannels = 64
)

func (r *reader) rateName(n *strictyaml.Node) (string, bool) {
	value, ok := r.number(n, minRate, maxRate)
	return strconv.FormatInt(value, 10), ok
}

func (r *reader) channelsName(n *strictyaml.Node) (string, bool) {
	value, ok := r.number(n, 1, maxChannels)
	return strconv.FormatInt(value, 10), ok
}

// choice reads a property of the audio: a value, or a mapping that also says how clients name another.
func (r *reader) choice(s *spec, c *choiceSpec, e entry, value func(*strictyaml.Node) (string, bool)) {
	if !isMapping(e.value) {
		if v, ok := value(e.value); ok {
			*c = choiceSpec{value: v}
		}
		return
	}
	for _, f := range r.below(s, "failover.audio."+e.key, e.value, "default", "query", "message", "within", "names") {
		switch f.key {
		case "default":
			if v, ok := value(f.value); ok {
				c.value = v
			}
		case "query":
			r.setOptional(&c.query, f.value)
		case "message":
			c.message = nil
			if !isNone(f.value) {
				r.setPath(&c.message, f.value)
			}
		case "within":
			r.setOptional(&c.within, f.value)
		case "names":
			c.names = nil
			if isNone(f.value) {
				break
			}
			names := make(map[string]string)
			for _, name := range r.mapping(f.value, "a mapping from clients' names to values") {
				if v, ok := value(name.value); ok {
					names[name.key] = v
				}
			}
			c.names = names
		}
	}
}

// setOptional reads a text that the word none removes.
func (r *reader) setOptional(to *string, n *strictyaml.Node) {
	if *to = ""; isNone(n) {
		return
	}
	if r.setText(to, n); *to == "" && isText(n) {
		r.problem(placeOf(n), "empty text: use a name, or none")
	}
}

func (r *reader) configure(fields []entry, at place) (c configureSpec, ok bool) {
	for _, f := range fields {
		switch f.key {
		case "messages":
			c.messages = r.matchers(f.value, messageKeys)
		case "resend":
			if i, ok := r.word(f.value, resendNames...); ok {
				c.resend = Resend(i)
			}
		case "except":
			c.except = r.matchers(f.value, messageKeys)
		}
	}
	return c, r.needs(fields, at, "configure", "messages")
}

func (r *reader) answered(fields []entry, at place) (a answerSpec, ok bool) {
	for _, f := range fields {
		switch f.key {
		case "messages":
			a.messages = r.matchers(f.value, messageKeys)
		case "by":
			i, ok := r.word(f.value, meansNames...)
			if a.by = Means(i); !ok {
				return a, false
			}
		case "times":
			for _, item := range items(f.value) {
				var path jsonPath
				if r.setItemsPath(&path, item); path != nil {
					a.times = append(a.times, path)
				}
			}
		case "where":
			a.where = r.oneCondition(f)
		case "most":
			a.most, _ = r.boolean(f.value)
		case "unit":
			r.unit(&a.unit, f.value)
		case "margin":
			r.setDuration(&a.margin, f.value)
		case "marker":
			a.marker = r.matchers(f.value, messageKeys)
		}
	}
	if !r.needs(fields, at, "answered", "messages", "by") {
		return a, false
	}
	has := func(key string) bool { return slices.ContainsFunc(fields, func(f entry) bool { return f.key == key }) }
	switch timed := a.by == MeansTime || a.by == MeansNext; {
	case timed && !r.needs(fields, at, "answered by "+meansNames[a.by], "times", "unit"):
		return a, false
	case !timed:
		for _, key := range []string{"times", "where", "most", "unit"} {
			if has(key) {
				r.problem(at, "%s means nothing for answered by %s: remove it, or use by: time or next", key, meansNames[a.by])
			}
		}
	case (a.where != nil || a.most) && !slices.ContainsFunc(a.times, jsonPath.hasItems):
		r.problem(at, "where and most choose among the items of a list: use a path with [] in times, such as segments[].end")
	case len(a.times) > maxEntries:
		r.problem(at, "%d paths in times: use at most %d", len(a.times), maxEntries)
	}
	if a.by == MeansMarker && !r.needs(fields, at, "answered by marker", "marker") {
		return a, false
	}
	if has("marker") && a.by != MeansMarker {
		r.problem(at, "marker means nothing for answered by %s: remove it, or use by: marker", meansNames[a.by])
	}
	if has("margin") && a.by != MeansUtterance {
		r.problem(at, "margin means nothing for answered by %s: remove it, or use by: utterance", meansNames[a.by])
	}
	return a, true
}

// oneCondition reads a mapping with one condition.
func (r *reader) oneCondition(f entry) *condition {
	list, ok := r.conditions(f.value)
	if !ok {
		return nil
	}
	if len(list) > 1 {
		r.problem(placeOf(f.value), "%s has %d conditions: use one, such as {completed: true}", f.key, len(list))
		return nil
	}
	return &list[0]
}

func (r *reader) setItemsPath(to *jsonPath, n *strictyaml.Node) {
	text, ok := r.text(n)
	if !ok {
		return
	}
	path, err := parseItemsPath(text)
	if err != nil {
		r.problem(placeOf(n), "%v", err)
		return
	}
	*to = path
}

func (r *reader) unit(to *TimeUnit, n *strictyaml.Node) {
	if i, ok := r.word(n, unitNames...); ok {
		*to = TimeUnit(i)
	}
}

func (r *reader) shift(fields []entry, at place) (t timeSpec, ok bool) {
	for _, f := range fields {
		switch f.key {
		case "path":
			r.setItemsPath(&t.path, f.value)
			t.at = placeOf(f.value)
		case "unit":
			r.unit(&t.unit, f.value)
		case "when":
			t.when = r.matchers(f.value, messageKeys)
		}
	}
	return t, r.needs(fields, at, "shift", "path", "unit")
}

func (r *reader) renumber(fields []entry, at place) (c numberSpec, ok bool) {
	for _, f := range fields {
		switch f.key {
		case "path":
			r.setItemsPath(&c.path, f.value)
			c.at = placeOf(f.value)
		case "first":
			c.first, _ = r.number(f.value, 0, 1<<31-1)
		case "unless":
			c.unless = r.matchers(f.value, messageKeys)
		}
	}
	return c, r.needs(fields, at, "renumber", "path", "first")
}

func (r *reader) hide(fields []entry, at place) (h hideSpec, ok bool) {
	for _, f := range fields {
		switch f.key {
		case "messages":
			h.messages = r.matchers(f.value, messageKeys)
		case "most":
			most, _ := r.number(f.value, 1, 1000)
			h.most = int(most)
		}
	}
	return h, r.needs(fields, at, "hide", "messages")
}

func (r *reader) prepend(s *spec, n *strictyaml.Node) {
	p := &s.failover.prepend
	if isNone(n) {
		*p = prependSpec{}
		return
	}
	for _, f := range r.below(s, "failover.prepend", n, "path", "final", "most") {
		switch f.key {
		case "path":
			r.setPath(&p.path, f.value)
		case "final":
			if p.final = nil; !isNone(f.value) {
				p.final = r.oneCondition(f)
			}
		case "most":
			if most, ok := r.number(f.value, 0, 1000); ok {
				p.most = int(most)
			}
		}
	}
}

func (r *reader) lastWord(s *spec, n *strictyaml.Node) {
	if isNone(n) {
		s.failover.lastWord = lastWordSpec{}
		return
	}
	for _, e := range r.below(s, "failover.last-word", n, "close", "messages") {
		switch {
		case e.key == "messages":
			s.failover.lastWord.messages = r.matchers(e.value, messageKeys)
		case isNone(e.value):
			s.failover.lastWord.close = nil
		default:
			if codes, ok := r.codes(e.value, 1000, 4999, "a close code from 1000 to 4999, or a range such as 4000-4099"); ok {
				s.failover.lastWord.close = codes
			}
		}
	}
}

// maxPace is the fastest replay that a profile may ask for.
const maxPace = 1000

// pace reads how many times faster than real time a replay may be. The word none stands for no limit.
func (r *reader) pace(to *float64, n *strictyaml.Node) {
	wanted := fmt.Sprintf("a number from 1 to %d (times real time), or none for no limit", maxPace)
	if isNone(n) {
		*to = 0
		return
	}
	if kind := strictyaml.KindOf(n); kind != strictyaml.Integer && kind != strictyaml.Float {
		r.Wrong(n, wanted)
		return
	}
	value, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !(value >= 1 && value <= maxPace) {
		r.problem(placeOf(n), "%s is out of range: use %s", n.Value, wanted)
		return
	}
	*to = value
}
