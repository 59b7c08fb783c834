package profile

import (
	"slices"
	"strings"
	"time"
)

// check finds problems of a profile as a whole, whose parts are well-formed.
func (r *reader) check(s *spec) {
	switch s.reuse {
	case OneShot: // it does not use what the profile says about the reset
	case Lockstep:
		r.checkLockstep(s)
	case Fenced:
		r.checkFenced(s)
	case Tagged:
		r.checkTagged(s)
	case Quiet:
		r.checkQuiet(s)
	}
	r.checkUnusedKeys(s)
	r.checkReset(s)
	r.checkLeave(s)
	r.checkTell(s)
	r.checkReplace(s)
	r.checkRisks(s)
	r.checkKeepalive(s)
	r.checkTokens(s)
	r.checkLengths(s)
	r.checkVariant(s)
	r.checkAffinity(s)
	r.checkPredial(s)
	r.checkFailover(s)
	r.checkScript(s)
	r.checkCapacity(s)
}

func (r *reader) checkPredial(s *spec) {
	named := slices.ContainsFunc(append(slices.Clone(s.variant.private.headers), s.variant.private.query...), namesKey)
	if _, own := s.own["predial"]; own && s.predial == PredialWithKey && !named {
		r.problem(s.place("predial", "variant"), "predial: with-key needs the header or parameter that carries the key: list it under variant.private, such as variant: {private: {headers: [Authorization]}} (its name must say that it is a key or token), or use predial: idle or never")
	}
}

func (r *reader) checkLockstep(s *spec) {
	switch {
	case len(s.reset.send) == 0 && !s.stateless:
		r.problem(s.place("reuse"), "reuse: lockstep needs a reset: set reset: {send: ...} to what the proxy sends after a session, or stateless: true if the server keeps nothing from one message to the next")
	case len(s.reset.send) > 0 && s.stateless:
		r.problem(s.place("stateless", "reset.send", "reset"), "stateless: true needs no reset, but reset.send is set: remove one of them")
	}
	if s.stateless && len(s.reset.send) == 0 && (s.reset.count > 0 || len(s.reset.until) > 0) {
		r.problem(s.place("reset.until", "reset"), "reset.until describes the answers to reset.send, which is not set: set reset.send or remove reset.until")
	}
	if s.reset.quiet {
		r.problem(s.place("reset.until", "reset"), "until: quiet proves nothing for lockstep: use {count: number of replies}, matchers for the last reply, or both")
	}
	if s.end.resets {
		r.problem(s.place("end.resets", "end"), "end.resets works only with reuse: fenced or quiet: use replace: reset for lockstep")
	}
}

func (r *reader) checkFenced(s *spec) {
	r.checkAcknowledged(s)
	if s.reset.quiet {
		r.problem(s.place("reset.until", "reset"), "until: quiet proves nothing for fenced: use matchers for the acknowledgement, or reuse: quiet if the server sends none")
	} else if len(s.reset.until) == 0 {
		r.problem(s.place("reuse"), "reuse: fenced needs a way to recognize the server's acknowledgement: set reset: {until: matchers}")
	} else if !s.hasTokens() && len(s.answers) == 0 {
		r.problem(s.place("reset.until", "reset"), "the acknowledgement of the reset looks like the answer to the same message from a client: use %s in reset.send and reset.until, or set answers to matchers for all client messages that get the same answer", tokenMark)
	}
}

func (r *reader) checkQuiet(s *spec) {
	r.checkAcknowledged(s)
	if s.reset.settle == 0 {
		r.problem(s.place("reset.settle", "reset", "reuse"), "reuse: quiet needs a time without messages: set reset: {settle: ...} to a duration such as 100ms")
	}
	if !s.reset.quiet && len(s.reset.until) == 0 {
		r.problem(s.place("reuse"), "reuse: quiet needs a way to recognize the server's acknowledgement: set reset: {until: matchers}, or {until: quiet} if the server sends none")
	} else if !s.reset.quiet && !s.hasTokens() && len(s.answers) == 0 {
		r.problem(s.place("reset.until", "reset"), "the acknowledgement of the reset looks like the answer to the same message from a client: set answers to matchers for all client messages that get the same answer")
	}
}

// checkAcknowledged finds problems of a reset that the server acknowledges.
func (r *reader) checkAcknowledged(s *spec) {
	if len(s.reset.send) == 0 && !s.end.resets {
		r.problem(s.place("reuse"), "reuse: %s needs a reset: set reset: {send: ...} to what the proxy sends after a session, or end: {resets: true} if the client's own end message has that effect", s.reuse)
	}
	if s.end.resets && len(s.end.client) == 0 {
		r.problem(s.place("end.resets", "end"), "end.resets needs the client's end message: set end: {client: matchers}")
	}
	if s.reset.count > 0 {
		r.problem(s.place("reset.until", "reset"), "a count of replies works only with reuse: lockstep: use matchers for the acknowledgement with reuse: %s", s.reuse)
	}
}

func (r *reader) checkTagged(s *spec) {
	switch {
	case len(s.tag.start) == 0 || s.tag.path == nil || len(s.tag.done) == 0:
		r.problem(s.place("tag", "reuse"), "reuse: tagged needs a way to recognize tasks: set tag: {start: matchers for the client's message that begins a task, path: path to the tag in that message, done: matchers for the server's last message of a task}")
	default:
		for _, key := range []string{"tag.start", "tag.end", "tag.done"} {
			if slices.ContainsFunc(s.uses()[key], func(m matcher) bool { return m.json == nil || m.packed }) {
				r.problem(s.place(key, "tag"), "impossible matcher: a tag is text in a JSON message: use {json: {...}}")
			}
		}
	}
	if len(s.reset.send) > 0 {
		r.problem(s.place("reset.send", "reset"), "a tagged connection is clean when its tasks are done: remove reset.send")
	}
}

// checkUnusedKeys finds keys that mean nothing for the profile's way of reuse.
func (r *reader) checkUnusedKeys(s *spec) {
	if s.reuse == OneShot {
		return
	}
	for _, k := range []struct {
		key  string
		set  bool
		ways []Reuse
	}{
		{"unanswered", len(s.unanswered) > 0, []Reuse{Lockstep}},
		{"stateless", s.stateless, []Reuse{Lockstep}},
		{"answers", len(s.answers) > 0, []Reuse{Fenced, Quiet}},
		{"tag", len(s.tag.start) > 0, []Reuse{Tagged}},
		{"sticky", len(s.sticky) > 0, []Reuse{Lockstep, Fenced, Quiet}},
		{"replace", s.replace, []Reuse{Lockstep, Fenced}},
	} {
		var names []string
		for _, way := range k.ways {
			names = append(names, way.String())
		}
		if k.set && !slices.Contains(k.ways, s.reuse) {
			r.problem(s.place(k.key), "%s works only with reuse: %s; this profile has reuse: %s", k.key, strings.Join(names, " or "), s.reuse)
		}
	}
}

func (r *reader) checkReset(s *spec) {
	if s.reuse == OneShot {
		return
	}
	if s.early == EarlyDiscard && len(s.end.client) == 0 && s.reuse != Tagged {
		r.problem(s.place("early"), "early: discard needs the client's end message, without which a client leaves early: set end: {client: matchers}")
	}
	if s.reset.timeout == 0 {
		r.problem(s.place("reset.timeout", "reset"), "reset.timeout is 0: use a duration such as 5s")
	} else if s.reset.settle > s.reset.timeout {
		r.problem(s.place("reset.settle", "reset.timeout", "reset"), "settle (%s) is longer than timeout (%s), so the reset can never succeed: make settle at most as long as timeout", s.reset.settle, s.reset.timeout)
	}
	for key, timeout := range map[string]time.Duration{"greeting": s.timeouts.greeting, "ready": s.timeouts.ready} {
		if timeout == 0 && len(s.uses()[key]) > 0 {
			r.problem(s.place("timeouts."+key, "timeouts"), "timeouts.%s is 0, but the profile has matchers for %s: use a duration such as 10s", key, key)
		}
	}
}

func (r *reader) checkReplace(s *spec) {
	if !s.replace || s.reuse == OneShot {
		return
	}
	if s.end.timeout == 0 {
		r.problem(s.place("end.timeout", "end"), "end.timeout is 0: use a duration such as 1m")
	}
	if len(s.end.client) == 0 {
		r.problem(s.place("replace"), "replace: reset needs the client's end message: set end: {client: matchers}")
	}
	if len(s.reset.send) == 0 && s.reuse != Quiet {
		r.problem(s.place("replace"), "replace: reset needs a reset to send instead of the client's end message: set reset: {send: ...}")
	}
	if s.hasTokens() {
		r.problem(s.place("replace"), "with replace: reset the client receives the answer to the reset: remove %s from reset.send and reset.until", tokenMark)
	}
	if s.end.resets {
		r.problem(s.place("replace", "end.resets", "end"), "with end.resets the end message has the effect of the reset and needs no replacement: remove end.resets or replace")
	}
}

func (r *reader) checkRisks(s *spec) {
	if _, own := s.own["unsafe"]; !own {
		return
	}
	if s.unsafe&acceptQuiet != 0 && s.reuse != Quiet {
		r.problem(s.place("unsafe"), "unsafe: quiet works only with reuse: quiet; this profile has reuse: %s", s.reuse)
	}
	if s.unsafe&acceptDoubt != 0 && s.doubt == "" {
		r.problem(s.place("unsafe"), "unsafe: doubt accepts the doubt that a profile states; this profile states none")
	}
	if s.unsafe&acceptBlind != 0 && s.reuse == OneShot {
		r.problem(s.place("unsafe"), "unsafe: blind turns the reset off; reuse: one-shot has no reset")
	}
}

func (r *reader) checkKeepalive(s *spec) {
	k := &s.keepalive
	switch {
	case len(k.send) > 0 && k.every == 0:
		r.problem(s.place("keepalive.send", "keepalive"), "keepalive.send needs an interval: set keepalive: {every: ...} to a duration such as 10s")
	case len(k.send) == 0 && k.every > 0:
		r.problem(s.place("keepalive.every", "keepalive"), "keepalive.every needs a message: set keepalive: {send: ...}")
	case len(k.send) == 0 && len(k.answer) > 0:
		r.problem(s.place("keepalive.answer", "keepalive"), "keepalive.answer needs the message that is answered: set keepalive: {send: ...}")
	case len(k.send) > 1:
		r.problem(s.place("keepalive.send", "keepalive"), "keepalive.send has %d messages: use one", len(k.send))
	case len(k.send) > 0 && len(k.answer) == 0 && s.reuse == Lockstep:
		r.problem(s.place("keepalive.send", "keepalive"), "a lockstep server answers every message: set keepalive: {answer: matchers}")
	}
}
