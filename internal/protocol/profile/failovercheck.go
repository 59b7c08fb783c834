package profile

import (
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// checkFailover finds problems of what a profile says about failover, whose parts are well-formed.
func (r *reader) checkFailover(s *spec) {
	if s.failover.faulty { // what is missing may be what could not be read
		return
	}
	f := &s.failover
	r.checkVerdict(s)
	r.checkAudio(s)
	r.checkAnswered(s)
	r.checkPaths(s)
	r.checkHidden(s)
	if f.prepend.path == nil && (f.prepend.final != nil || f.prepend.most > 0) {
		r.problem(s.place("failover.prepend", "failover"), "prepend needs path, the path to the list or text that has the whole state")
	}
	for _, c := range []struct {
		key    string
		length int
	}{{"configure", len(f.configure)}, {"answered", len(f.answered)}, {"hide", len(f.hide)}, {"renumber", len(f.renumber)}} {
		if c.length > maxEntries {
			r.problem(s.place("failover."+c.key, "failover"), "%s has %d entries: use at most %d", c.key, c.length, maxEntries)
		}
	}
	timed := 0
	for _, t := range f.shift {
		if len(t.when) > 0 {
			timed++
		}
	}
	if timed > maxTimed || len(f.shift) > 2*maxTimed {
		r.problem(s.place("failover.shift", "failover"), "shift has %d entries, %d with when: use at most %d, %d with when", len(f.shift), timed, 2*maxTimed, maxTimed)
	}
	captured := f.captured(s)
	for i, uses := range [...][]use{f.clientUses(s), f.serverUses(s)} {
		most := 64
		if captured[i] != nil {
			most--
		}
		if count := countConditions(uses); count > most {
			r.problem(s.place("failover"), "%d JSON conditions in the matchers of one direction under failover: use at most %d", count, most)
		}
		for _, u := range uses {
			for _, m := range u.matchers {
				for _, text := range m.texts() {
					if strings.Contains(text, tokenMark) && u.class&(isEnd|isUnanswered|isUntil|isDone) == 0 {
						r.problem(s.placeOr(m.at, "failover"), "%s stands for a number that is sent with the reset: use it only in reset.send and reset.until", tokenMark)
					}
				}
			}
		}
	}
}

// placeOr returns a place within the value of the first of these keys if the profile sets it itself, otherwise what [spec.place] returns for the
// others. (What is inherited has its place in another file.)
func (s *spec) placeOr(at place, key string, others ...string) place {
	if _, own := s.own[key]; own {
		return at
	}
	return s.place(others...)
}

// checkVerdict finds a verdict that the rest does not support.
func (r *reader) checkVerdict(s *spec) {
	f := &s.failover
	_, own := s.own["failover.verdict"]
	_, why := s.own["failover.why"]
	at := s.place("failover.verdict", "failover")
	switch {
	case own && f.Verdict == Never && !why:
		r.problem(at, "verdict: never needs why, the reason for which sessions are not taken over")
	case own && f.Verdict == Visible && !why:
		r.problem(at, "verdict: visible needs why, what a client sees when its session is taken over")
	case f.Verdict == Full && f.Why != "" && why:
		r.problem(s.place("failover.why"), "with verdict: full a client sees nothing of it: remove why, or use verdict: visible")
	}
	if f.Verdict == Full {
		f.Why = ""
	}
	if f.Verdict == Never {
		return
	}
	if len(f.audio.messages) == 0 {
		r.problem(at, "verdict: %s needs audio: set audio: {messages: matchers for the client's messages with audio, encoding: ..., rate: ...}", f.Verdict)
	}
	if len(f.answered) == 0 {
		r.problem(at, "verdict: %s needs answered: set it to the server's messages that finally answer audio, and up to where", f.Verdict)
	}
}

// checkAudio finds audio that cannot be read, or whose bytes are no time.
func (r *reader) checkAudio(s *spec) {
	a := &s.failover.audio
	if len(a.messages) == 0 {
		if a.base64 != nil || a.floats != "" || a.encoding.value != "" || a.rate.value != "" {
			r.problem(s.place("failover.audio", "failover"), "audio needs messages: set it to matchers for the client's messages with audio")
		}
		return
	}
	at := func(key string) place { return s.place("failover.audio."+key, "failover.audio", "failover") }
	for key, c := range map[string]*choiceSpec{"encoding": &a.encoding, "rate": &a.rate, "channels": &a.channels} {
		switch named := c.query != "" || c.message != nil; {
		case c.value == "":
			r.problem(at(key), "audio needs %s: set its default, such as %s", key, map[string]string{"encoding": "s16le", "rate": "16000", "channels": "1"}[key])
		case !named && (len(c.names) > 0 || c.within != ""):
			r.problem(at(key), "audio.%s has names or within, but nothing that a client could name: set query or message", key)
		}
	}
	if a.base64 != nil && a.floats != "" {
		r.problem(at("floats"), "audio is in base64 or in floats, not in both: remove one of them")
	}
	if a.floats != "" && a.encoding.value != "f32le" {
		r.problem(at("encoding"), "floats are decoded to f32le: use encoding: f32le")
	}
	for _, m := range a.messages {
		binary := m.binary != nil || m.packed || m.opcode == frame.Binary
		if a.base64 != nil && binary {
			r.problem(s.placeOr(m.at, "failover.audio.messages", "failover.audio.base64", "failover"), "impossible matcher: audio in base64 at %s is in JSON, which is text: use {json: {...}}", a.base64)
		}
		if a.floats != "" && !binary {
			r.problem(s.placeOr(m.at, "failover.audio.messages", "failover.audio.floats", "failover"), "impossible matcher: an array of floats is in MessagePack, which is binary: use {opcode: binary}")
		}
	}
}

// checkAnswered finds answers that no message could match.
func (r *reader) checkAnswered(s *spec) {
	f := &s.failover
	at := s.place("failover.answered", "reuse")
	lockstep := s.reuse == Lockstep || s.reuse == OneShot // a profile may use connections once whatever its server does
	for i := range f.answered {
		a := &f.answered[i]
		packed := 0
		for _, m := range a.messages {
			if m.packed {
				packed++
			}
		}
		switch {
		case packed == 0:
		case packed < len(a.messages):
			r.problem(at, "answered by one entry with JSON and MessagePack: use an entry for each")
		case a.where != nil:
			r.problem(at, "where means nothing for MessagePack: remove it")
		}
		if a.id != nil && slices.ContainsFunc(f.answered[:i], func(other answerSpec) bool { return other.id != nil }) {
			r.problem(at, "id is in two entries of answered: use it in one")
		}
		if f.asksTasks(s) && (a.accepted != nil || a.refused != nil || a.id != nil) {
			r.problem(at, "with stall: asked and verdict: never, results of a tagged connection are counted by the ids of tasks: remove accepted, refused and id")
		}
		if a.by == MeansCount && !lockstep {
			r.problem(at, "by: count needs a server that answers each message with exactly one, in order: reuse: lockstep, or one-shot; this profile has reuse: %s", s.reuse)
		}
	}
	results := len(f.answered) + len(f.final) + len(f.partial)
	switch {
	case f.Stall == StallReplies && !lockstep:
		r.problem(s.place("failover.stall", "failover"), "stall: replies needs a server that answers each message with exactly one, in order: reuse: lockstep, or one-shot; this profile has reuse: %s", s.reuse)
	case f.Stall == StallAsked && len(s.end.client) == 0 && !slices.ContainsFunc(f.answered, func(a answerSpec) bool { return a.by == MeansMarker }):
		r.problem(s.place("failover.stall", "failover"), "stall: asked needs messages by which a client asks for results: set answered.marker, or end.client")
	case f.Stall > StallReplies && results == 0:
		r.problem(s.place("failover.stall", "failover"), "stall: %s needs results whose absence shows a stall: set answered, final or partial", f.Stall)
	}
	if f.Continues && len(f.shift) == 0 {
		r.problem(s.place("failover.times", "failover"), "times: connection needs shift, the paths of the times that continue from session to session")
	}
}

// checkPaths finds paths that cannot exist beside each other.
func (r *reader) checkPaths(s *spec) {
	f := &s.failover
	type used struct {
		key  string
		path jsonPath
		when string
		at   place
	}
	var all []used
	for i := range f.shift {
		all = append(all, used{"shift", f.shift[i].path, string(encode(matchersYAML(f.shift[i].when))), f.shift[i].at})
	}
	for i := range f.renumber {
		all = append(all, used{"renumber", f.renumber[i].path, "", f.renumber[i].at})
	}
	if f.prepend.path != nil {
		all = append(all, used{"prepend", f.prepend.path, "", s.place("failover.prepend", "failover")})
	}
	for i, a := range all {
		at := s.placeOr(a.at, "failover."+a.key, "failover")
		for _, b := range all[:i] {
			switch {
			case slices.Equal(a.path, b.path) && (a.when == b.when || a.when == "" || b.when == ""):
				where := "under " + b.key + " and " + a.key
				if a.key == b.key {
					where = "twice under " + a.key
				}
				r.problem(at, "%s is %s: use it once", a.path, where)
			case b.key == "prepend" || a.key == "prepend": // its items have times
			case a.path.leadsThrough(b.path):
				r.problem(at, "impossible path: %s is a number (%s), so %s cannot exist", b.path, b.key, a.path)
			case b.path.leadsThrough(a.path):
				r.problem(at, "impossible path: %s is a number (%s), so %s cannot exist", a.path, a.key, b.path)
			}
		}
	}
}

// checkHidden finds matchers that would hide results.
func (r *reader) checkHidden(s *spec) {
	f := &s.failover
	results := make(map[string]string) // by matcher: the key
	add := func(key string, list []matcher) {
		for i := range list {
			results[string(encode(list[i].yaml()))] = key
		}
	}
	add("partial", f.partial)
	add("final", f.final)
	for i := range f.answered {
		add("answered", f.answered[i].messages)
	}
	for _, m := range s.goaway {
		if key, isResult := results[string(encode(m.yaml()))]; isResult {
			r.problem(s.placeOr(m.at, "goaway"), "this matcher is under goaway and %s: it would hide results", key)
		} else if m.opcode != 0 {
			r.problem(s.placeOr(m.at, "goaway"),
				"{opcode: %s} under goaway would hide results: use a matcher for the message that announces the end", m.opcode)
		}
	}
	for i := range f.hide {
		for _, m := range f.hide[i].messages {
			key, isResult := results[string(encode(m.yaml()))]
			switch {
			case isResult:
				r.problem(s.placeOr(m.at, "failover.hide", "failover"), "this matcher is under hide and %s: it would hide results", key)
			case m.opcode != 0 && f.hide[i].most == 0:
				r.problem(s.placeOr(m.at, "failover.hide", "failover"), "{opcode: %s} under hide would hide results: use a matcher for the greeting only, or most: 1", map[frame.Opcode]string{frame.Text: "text", frame.Binary: "binary"}[m.opcode])
			}
		}
	}
}
