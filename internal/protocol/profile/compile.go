package profile

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// program is a compiled profile: what a [Boundary] needs of it. It is immutable.
type program struct {
	reuse Reuse // the effective one
	blind bool

	fromClient, fromServer *matchSet
	mustKnow               class // roles of the client's messages that must be known: if one is in doubt, the connection is not reused

	setup, reset, alive []Message
	replies             int // how many replies the reset gets (lockstep)
	tokens              bool
	until               bool // the last reply to the reset must match
	unprompted          bool // wait only for quiet, not for an acknowledgement
	settle, timeout     time.Duration
	busyTime            time.Duration // until a server that has not said that it is full is taken to serve; 0 for no wait
	lastResultTime      time.Duration // for each answer up to the client's last, if the reset replaces its end message
	restarts            int           // how often the settle window may restart within the timeout

	aliveEvery                     time.Duration
	greetingTime, readyTime        time.Duration
	longestGreeting                int
	longest                        int // bytes of the longest message that is inspected
	replace, endResets             bool
	ends                           bool // the profile describes the client's end message
	tasksContinue                  bool // with messages that look like those that begin them
	early                          Early
	hasGreeting, hasReady, hasBusy bool // the profile has matchers for such messages
	hasAlive                       bool
	leave                          leaveProgram
	busyClose, busyStatus          []codeRange

	affinity *Affinity // nil for nothing
	silence  bool      // the keepalive is audio, and results have times
	tracker  *trackerProgram
}

// compile checks a profile and compiles it. It returns nil if the profile has problems.
func (r *reader) compile(s *spec) *Profile {
	before := len(r.problems)
	if r.check(s); len(r.problems) > before {
		return nil
	}
	p := &Profile{
		Name: s.name, Summary: s.summary, Declared: s.reuse, Predial: s.predial, Subprotocol: s.subprotocol, Lookalike: s.lookalike,
		Limits: s.limits, MaxAge: s.maxAge, Ping: s.keepalive.ping, EndCloses: s.end.closes, spec: s,
	}
	s.script.compile()
	p.Reuse, p.Reason = s.effective()
	p.program = newProgram(s, p.Reuse)
	p.program.affinity, p.program.tracker = s.affinity.compile(s.limits.Message), newTrackerProgram(s)
	p.program.silence = len(s.keepalive.send) > 0 && s.failover.tellsTimes() && p.program.tracker.isAudio(&s.keepalive.send[0])
	return p
}

// effective returns the way of reuse in force and, if it is OneShot, the reason.
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
		greetingTime: s.timeouts.greeting, readyTime: s.timeouts.ready, busyTime: s.timeouts.busy, longestGreeting: s.limits.Greeting, longest: s.limits.Message,
		early: s.early, hasGreeting: len(s.greeting) > 0, hasReady: len(s.ready) > 0,
	}
	for _, m := range s.busy {
		p.hasBusy = p.hasBusy || m.isMessage()
		p.busyClose = append(p.busyClose, m.close...)
		p.busyStatus = append(p.busyStatus, m.status...)
	}
	if p.hasReady || !p.mayRefuse() || reuse != OneShot {
		p.busyTime = 0
	}
	client := []use{}
	server := []use{{s.greeting, isGreeting}, {s.ready, isReady}, {s.busy, isBusy}, {s.keepalive.answer, isAlive}}
	p.alive, p.aliveEvery, p.hasAlive = s.keepalive.send, s.keepalive.every, len(s.keepalive.answer) > 0
	p.timeout, p.lastResultTime = s.reset.timeout, s.end.timeout
	p.leave = newLeaveProgram(&s.leave)
	server = append(server, use{s.leave.until, isLast})
	if reuse == OneShot { // no matcher that concerns reuse is needed
		p.fromClient = p.leave.fromClient(s)
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
	p.mustKnow = isSticky | isCounted | isStart | isStray | isDone
	p.tasksContinue = s.tag.continues

	if s.replace || s.end.resets || s.early == EarlyDiscard {
		client = append(client, use{s.end.client, isEnd})
	}
	client = append(client, use{s.sticky, isSticky}, use{s.unanswered, isUnanswered}, use{s.answers, isCounted}, use{s.tag.start, isStart}, use{s.tag.end, isDone})
	if s.reuse == Tagged && s.script.Envelope != "" { // clients send texts, and nothing tells what a server does with anything else
		client = append(client, use{[]matcher{{opcode: frame.Binary}}, isStray})
	}
	server = append(server, use{s.reset.until, isUntil}, use{s.tag.done, isDone}, use{s.tag.failed, isFailed})
	p.fromClient = newMatchSet(p.longest, s.tag.path, client...)
	p.fromServer = newMatchSet(p.longest, s.tag.toServer(), server...)
	return p
}
