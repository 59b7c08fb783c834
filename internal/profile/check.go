package profile

import (
	"slices"
	"strings"
)

// check finds what is wrong with a profile as a whole, where each part is well-formed.
func (r *reader) check(s *spec) {
	switch s.reuse {
	case OneShot: // what a profile says about reset and the like is not used
	case Lockstep:
		r.checkLockstep(s)
	case Fenced:
		r.checkFenced(s)
	case Tagged:
		r.checkTagged(s)
	case Quiet:
		r.checkQuiet(s)
	}
	r.checkForeign(s)
	r.checkReset(s)
	r.checkReplace(s)
	r.checkRisks(s)
	r.checkKeepalive(s)
	r.checkTokens(s)
	r.checkLengths(s)
	r.checkVariant(s)
	r.checkPredial(s)
}

func (r *reader) checkPredial(s *spec) {
	named := slices.ContainsFunc(append(slices.Clone(s.variant.privateHeaders), s.variant.privateQuery...), namesKey)
	if _, own := s.own["predial"]; own && s.predial == PredialWithKey && !named {
		r.problem(s.place("predial", "variant"), "predial: with-key needs to know where the key is; allowed is with variant: {private: {headers: [Authorization]}} or the name of another field or parameter whose name says that it is a key or token, or predial: idle or never")
	}
}

func (r *reader) checkLockstep(s *spec) {
	switch {
	case len(s.reset.send) == 0 && !s.stateless:
		r.problem(s.place("reuse"), "reuse without a reset: lockstep needs what the proxy sends after a session; allowed is reset: {send: ...}, or stateless: true for a server that keeps nothing from one message to the next")
	case len(s.reset.send) > 0 && s.stateless:
		r.problem(s.place("stateless", "reset.send", "reset"), "stateless: true says that no reset is needed, and reset.send gives one; allowed is one of them")
	}
	if s.stateless && len(s.reset.send) == 0 && (s.reset.count > 0 || len(s.reset.until) > 0) {
		r.problem(s.place("reset.until", "reset"), "reset.until is about the answers to reset.send, and there is none; allowed is one with the other")
	}
	if s.reset.quiet {
		r.problem(s.place("reset.until", "reset"), "until: quiet proves nothing; for lockstep allowed is {count: number of replies}, matchers of the last reply, or both")
	}
	if s.end.resets {
		r.problem(s.place("end.resets", "end"), "end.resets is for fenced and quiet; for lockstep allowed is replace: reset")
	}
}

func (r *reader) checkFenced(s *spec) {
	r.checkAcknowledged(s)
	if s.reset.quiet {
		r.problem(s.place("reset.until", "reset"), "until: quiet proves nothing; for fenced allowed are matchers of the acknowledgement, and reuse: quiet for a server without one")
	} else if len(s.reset.until) == 0 {
		r.problem(s.place("reuse"), "reuse without a reset: fenced needs how the server's acknowledgement is told from everything else; allowed is reset: {until: matchers}")
	} else if !s.hasTokens() && len(s.answers) == 0 {
		r.problem(s.place("reset.until", "reset"), "nothing tells the acknowledgement of the reset from the answer to the same message of a client; allowed is %s in reset.send and reset.until, or answers: matchers of all messages of a client that are answered in the same way", tokenMark)
	}
}

func (r *reader) checkQuiet(s *spec) {
	r.checkAcknowledged(s)
	if s.reset.settle == 0 {
		r.problem(s.place("reset.settle", "reset", "reuse"), "quiet needs a time without messages; allowed is reset: {settle: length of time, such as 100ms}")
	}
	if !s.reset.quiet && len(s.reset.until) == 0 {
		r.problem(s.place("reuse"), "reuse without a reset: quiet needs how the server's acknowledgement is told; allowed is reset: {until: matchers}, or {until: quiet} for a server without one")
	} else if !s.reset.quiet && !s.hasTokens() && len(s.answers) == 0 {
		r.problem(s.place("reset.until", "reset"), "nothing tells the acknowledgement of the reset from the answer to the same message of a client; allowed is answers: matchers of all messages of a client that are answered in the same way")
	}
}

// checkAcknowledged finds what is wrong with a reset that the server acknowledges.
func (r *reader) checkAcknowledged(s *spec) {
	if len(s.reset.send) == 0 && !s.end.resets {
		r.problem(s.place("reuse"), "reuse without a reset: %s needs what the proxy sends after a session; allowed is reset: {send: ...}, or end: {resets: true} when the client's own end has that effect", s.reuse)
	}
	if s.end.resets && len(s.end.client) == 0 {
		r.problem(s.place("end.resets", "end"), "end.resets is about the client's own end message; allowed is with end: {client: matchers}")
	}
	if s.reset.count > 0 {
		r.problem(s.place("reset.until", "reset"), "a count of replies is for lockstep; for %s allowed are matchers of the acknowledgement", s.reuse)
	}
}

func (r *reader) checkTagged(s *spec) {
	switch {
	case len(s.tag.start) == 0 || s.tag.path == nil || len(s.tag.done) == 0:
		r.problem(s.place("tag", "reuse"), "reuse without a reset: tagged needs how tasks are told; allowed is tag: {start: matchers of the client's message that begins a task, path: path to the tag in it, done: matchers of the server's last message of a task}")
	default:
		for _, m := range s.tag.start {
			if m.json == nil {
				r.problem(s.place("tag.start", "tag"), "impossible matcher: a tag is text in a JSON message; allowed is {json: {...}}")
			}
		}
		for _, m := range s.tag.done {
			if m.json == nil {
				r.problem(s.place("tag.done", "tag"), "impossible matcher: a tag is text in a JSON message; allowed is {json: {...}}")
			}
		}
	}
	if len(s.reset.send) > 0 {
		r.problem(s.place("reset.send", "reset"), "a tagged connection is clean when its tasks are done; reset.send is not allowed")
	}
}

// checkForeign finds keys that mean nothing for the profile's way of reuse.
func (r *reader) checkForeign(s *spec) {
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
		fits := !k.set
		var names []string
		for _, way := range k.ways {
			fits = fits || way == s.reuse
			names = append(names, way.String())
		}
		if !fits {
			r.problem(s.place(k.key), "%s is for reuse: %s; this profile has reuse: %s", k.key, strings.Join(names, " or "), s.reuse)
		}
	}
}

func (r *reader) checkReset(s *spec) {
	if s.reuse == OneShot {
		return
	}
	if s.early == EarlyDiscard && len(s.end.client) == 0 && s.reuse != Tagged {
		r.problem(s.place("early"), "a client leaves early when it leaves without its end message; allowed is early: discard with end: {client: matchers}")
	}
	if s.reset.timeout == 0 {
		r.problem(s.place("reset.timeout", "reset"), "a reset needs a limit; allowed is reset: {timeout: length of time, such as 5s}")
	} else if s.reset.settle > s.reset.timeout {
		r.problem(s.place("reset.settle", "reset.timeout", "reset"), "settle (%s) is longer than timeout (%s), so that the reset never succeeds; allowed is a settle of at most the timeout", s.reset.settle, s.reset.timeout)
	}
	for _, t := range []struct {
		key  string
		zero bool
	}{{"timeouts.greeting", s.timeouts.greeting == 0 && len(s.greeting) > 0}, {"timeouts.ready", s.timeouts.ready == 0 && len(s.ready) > 0}} {
		if t.zero {
			r.problem(s.place(t.key, "timeouts"), "what is awaited needs a limit; allowed is a length of time, such as 10s")
		}
	}
}

func (r *reader) checkReplace(s *spec) {
	if !s.replace || s.reuse == OneShot {
		return
	}
	if len(s.end.client) == 0 {
		r.problem(s.place("replace"), "replace: reset replaces the client's end message; allowed is with end: {client: matchers}")
	}
	if len(s.reset.send) == 0 && s.reuse != Quiet {
		r.problem(s.place("replace"), "replace: reset puts the reset in the place of the client's end message; allowed is with reset: {send: ...}")
	}
	if s.hasTokens() {
		r.problem(s.place("replace"), "the client gets the answer to the reset, which must not have %s in it; allowed is a reset without", tokenMark)
	}
	if s.end.resets {
		r.problem(s.place("replace", "end.resets", "end"), "an end message that has the effect of the reset (end.resets) needs no replacing; allowed is one of them")
	}
}

func (r *reader) checkRisks(s *spec) {
	if _, own := s.own["unsafe"]; !own {
		return
	}
	if s.unsafe&acceptQuiet != 0 && s.reuse != Quiet {
		r.problem(s.place("unsafe"), "unsafe: quiet is for reuse: quiet; this profile has reuse: %s", s.reuse)
	}
	if s.unsafe&acceptDoubt != 0 && s.doubt == "" {
		r.problem(s.place("unsafe"), "unsafe: doubt accepts what a profile says under doubt; this profile has no doubt")
	}
	if s.unsafe&acceptBlind != 0 && s.reuse == OneShot {
		r.problem(s.place("unsafe"), "unsafe: blind switches the reset off; with reuse: one-shot there is none")
	}
}

func (r *reader) checkKeepalive(s *spec) {
	k := &s.keepalive
	switch {
	case len(k.send) > 0 && k.every == 0:
		r.problem(s.place("keepalive.send", "keepalive"), "keepalive.send without how often; allowed is with keepalive: {every: length of time, such as 10s}")
	case len(k.send) == 0 && k.every > 0:
		r.problem(s.place("keepalive.every", "keepalive"), "keepalive.every without what; allowed is with keepalive: {send: ...}")
	case len(k.send) == 0 && len(k.answer) > 0:
		r.problem(s.place("keepalive.answer", "keepalive"), "keepalive.answer without what is answered; allowed is with keepalive: {send: ...}")
	case len(k.send) > 1:
		r.problem(s.place("keepalive.send", "keepalive"), "keepalive.send has %d messages; allowed is one", len(k.send))
	case len(k.send) > 0 && len(k.answer) == 0 && s.reuse == Lockstep:
		r.problem(s.place("keepalive.send", "keepalive"), "with lockstep every message is answered; allowed is with keepalive: {answer: matchers}")
	}
}
