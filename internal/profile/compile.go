package profile

import "time"

// program is a profile made ready to be run: what a [Boundary] needs of it.
type program struct {
	reuse Reuse // the effective one
	blind bool

	fromClient, fromServer *matchSet
	mustKnow               class // what must be known of messages from clients: after a message that cannot be judged, the connection is not reused

	setup, reset, alive []Message
	replies             int // to the messages of the reset, for lockstep
	tokens              bool
	until               bool // the acknowledgement must match
	unprompted          bool // no acknowledgement is awaited, only quiet
	settle, timeout     time.Duration
	restarts            int // of the settle window that the timeout allows

	aliveEvery                     time.Duration
	greetingTime, readyTime        time.Duration
	longestGreeting                int
	longest                        int // message that is looked into
	replace, endResets             bool
	ends                           bool // it is known how a client ends its session
	early                          Early
	hasGreeting, hasReady, hasBusy bool // there is a matcher of messages
	hasAlive                       bool
	busyClose, busyStatus          []codeRange
}

// compile checks what a profile says and makes it ready to be run. It returns nil when something is wrong with it.
func (r *reader) compile(s *spec) *Profile {
	before := len(r.problems)
	if r.check(s); len(r.problems) > before {
		return nil
	}
	p := &Profile{
		Name: s.name, Summary: s.summary, Declared: s.reuse, Predial: s.predial, Subprotocol: s.subprotocol,
		Limits: s.limits, Ping: s.keepalive.ping, EndCloses: s.end.closes, spec: s,
	}
	p.Reuse, p.Reason = s.effective()
	p.program = newProgram(s, p.Reuse)
	return p
}

// effective returns how connections are really reused, and if they are not, why.
func (s *spec) effective() (Reuse, string) {
	switch {
	case s.reuse == OneShot && s.reason != "":
		return OneShot, s.reason
	case s.reuse == OneShot:
		return OneShot, "the profile declares one-shot"
	case s.reuse == Quiet && s.unsafe&acceptQuiet == 0:
		return OneShot, "quiet proves nothing, and the profile does not set unsafe: quiet"
	case s.doubt != "" && s.unsafe&acceptDoubt == 0:
		return OneShot, "in doubt, and the profile does not set unsafe: doubt: " + s.doubt
	}
	return s.reuse, ""
}

func newProgram(s *spec, reuse Reuse) *program {
	p := &program{
		reuse: reuse, blind: s.unsafe&acceptBlind != 0, setup: s.setup,
		greetingTime: s.timeouts.greeting, readyTime: s.timeouts.ready, longestGreeting: s.limits.Greeting, longest: s.limits.Message,
		early: s.early, hasGreeting: len(s.greeting) > 0, hasReady: len(s.ready) > 0,
	}
	for _, m := range s.busy {
		p.hasBusy = p.hasBusy || m.isMessage()
		p.busyClose = append(p.busyClose, m.close...)
		p.busyStatus = append(p.busyStatus, m.status...)
	}
	client := []use{}
	server := []use{{s.greeting, isGreeting}, {s.ready, isReady}, {s.busy, isBusy}, {s.keepalive.answer, isAlive}}
	p.alive, p.aliveEvery, p.hasAlive = s.keepalive.send, s.keepalive.every, len(s.keepalive.answer) > 0
	p.timeout = s.reset.timeout
	if reuse == OneShot { // nothing that is about reuse is looked for
		p.fromClient = newMatchSet(p.longest, nil)
		p.fromServer = newMatchSet(p.longest, nil, server...)
		return p
	}
	p.replace, p.endResets, p.ends = s.replace, s.end.resets, len(s.end.client) > 0
	p.reset, p.settle = s.reset.send, s.reset.settle
	p.replies = s.reset.count
	if p.replies == 0 {
		p.replies = len(p.reset)
	}
	p.tokens, p.until, p.unprompted = s.hasTokens(), len(s.reset.until) > 0, s.reset.quiet
	p.restarts = int(s.reset.timeout / max(s.reset.settle, time.Millisecond))
	p.mustKnow = isSticky | isCounted | isStart

	if s.replace || s.end.resets || s.early == EarlyDiscard {
		client = append(client, use{s.end.client, isEnd})
	}
	client = append(client, use{s.sticky, isSticky}, use{s.unanswered, isUnanswered}, use{s.answers, isCounted}, use{s.tag.start, isStart})
	server = append(server, use{s.reset.until, isUntil}, use{s.tag.done, isDone}, use{s.tag.failed, isFailed})
	toServer := s.tag.server
	if toServer == nil {
		toServer = s.tag.path
	}
	p.fromClient = newMatchSet(p.longest, s.tag.path, client...)
	p.fromServer = newMatchSet(p.longest, toServer, server...)
	return p
}
