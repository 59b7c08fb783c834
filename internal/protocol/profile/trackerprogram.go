package profile

import (
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// trackerProgram is what a [Tracker] needs of a compiled profile: the roles of messages, and the paths to what it reads and changes in them. It
// is immutable.
type trackerProgram struct {
	*Failover

	// They find the roles of whole messages of any length. No token is in their matchers.
	fromClient, fromServer *matchSet
	timed                  []class // by index in Failover.shift: the role that a message must have; 0 for any message

	long          [3]found // by opcode: what is known of a client's message that is too long to match
	configuration class    // all roles of configuration messages
	decisive      class    // roles of a client's messages that must be known

	settingsStay bool // what configured the server before the client's end message is still in force after it
	greetsAgain  bool // and each configuration message, of which there is one kind, is answered with a greeting

	replies   bool  // each message gets a reply
	counts    bool  // and replies answer by their count
	results   class // the roles of messages that answer
	named     bool  // receipts for markers, and answers, have names
	tasks     bool  // markers ask for results of a task
	measures  bool  // answers tell up to where audio is answered
	concludes bool  // the server's clock or count begins anew after each of the client's end messages

	audioPath *pathSet     // to the audio in a text message; nil for none
	uncounted bool         // audio in JSON has no path, beside binary audio: how long it is cannot be told
	heard     audioProgram // of what the client sends
	spoken    audioProgram // of what the server sends
	ends      []*pathSet
	packed    []bool   // by index in answered: the messages are MessagePack
	edits     *pathSet // the paths of shift, then those of renumber; nil for none
	list      *pathSet // to what is prepended; nil for none
	items     *jsonProgram
}

// newTrackerProgram compiles what the profile says about failover.
func newTrackerProgram(s *spec) *trackerProgram {
	f := &s.failover
	p := &trackerProgram{Failover: f, concludes: s.concludes(), settingsStay: len(s.tag.done) == 0} // tasks have their own settings
	p.greetsAgain = p.concludes && p.settingsStay && len(f.configure) == 1
	captured := f.captured(s)
	p.tasks = f.asksTasks(s)
	p.named = captured[1] != nil && !p.tasks
	p.fromClient = newMatchSet(maxAssembled, captured[0], f.clientUses(s)...)
	p.fromServer = newMatchSet(maxAssembled, captured[1], f.serverUses(s)...)
	for _, op := range []frame.Opcode{frame.Text, frame.Binary} {
		p.long[op] = p.fromClient.tooLong(op)
	}
	for i := range f.configure {
		p.configuration |= isConfiguration(i)
	}
	p.decisive = p.configuration | isAudio | isForgotten | isEnd
	for i := range f.answered {
		a := &f.answered[i]
		p.results |= isAnswer(i)
		p.counts = p.counts || a.by == MeansCount
		p.measures = p.measures || a.measures()
		p.ends = append(p.ends, newEndsSet(a))
		p.packed = append(p.packed, len(a.messages) > 0 && a.messages[0].packed)
	}
	var edits []jsonPath
	timed := 0
	for _, t := range f.shift {
		edits = append(edits, t.path)
		role := class(0)
		if len(t.when) > 0 {
			role = isTimed(timed)
			timed++
		}
		p.timed = append(p.timed, role)
	}
	for _, n := range f.renumber {
		edits = append(edits, n.path)
	}
	if len(edits) > 0 {
		p.edits = newPathSet(edits...)
	}
	p.replies = p.counts || f.Stall == StallReplies
	if f.audio.base64 != nil {
		p.audioPath = newPathSet(f.audio.base64)
	} else {
		p.uncounted = slices.ContainsFunc(f.audio.messages, func(m matcher) bool { return m.opcode == frame.Binary }) &&
			slices.ContainsFunc(f.audio.messages, func(m matcher) bool { return m.json != nil && !m.packed })
	}
	if f.prepend.path != nil {
		p.list = newPathSet(f.prepend.path)
		if f.prepend.final != nil {
			p.items = newJSONProgram([]condition{*f.prepend.final}, false)
		}
	}
	p.heard, p.spoken = newAudioProgram(&f.audio), newAudioProgram(&s.output)
	return p
}

// audioProgram finds the properties of audio that a text message of the client names.
type audioProgram struct {
	*audioSpec
	choices  *pathSet // to encoding, rate and channels in a text message; nil for none
	choiceOf []int    // by path in choices: which of the three it names
}

func newAudioProgram(a *audioSpec) audioProgram {
	p := audioProgram{audioSpec: a}
	var choices []jsonPath
	for i, c := range a.properties() {
		if c.message != nil {
			choices = append(choices, c.message)
			p.choiceOf = append(p.choiceOf, i)
		}
	}
	if len(choices) > 0 {
		p.choices = newPathSet(choices...)
	}
	return p
}

// concludes reports whether the server's clock or count begins anew after each of the client's end messages.
func (s *spec) concludes() bool {
	f := &s.failover
	if s.end.closes || len(s.end.client) == 0 || f.Continues {
		return false
	}
	return slices.ContainsFunc(f.answered, func(a answerSpec) bool { return a.isTimed() }) || len(f.shift)+len(f.renumber) > 0
}

// concludesByLast reports whether client.last is what answers the client's end message: no task ends with it, and reset.until, which has a token,
// matches no answer to a client.
func (s *spec) concludesByLast() bool { return s.hasTokens() && len(s.tag.done) == 0 }

// newEndsSet returns the paths to the times of an answer. If only some items of a list count, the last path leads to that list.
func newEndsSet(a *answerSpec) *pathSet {
	if a.where == nil || len(a.times) == 0 {
		return newPathSet(a.times...)
	}
	list := a.times[0][:lastItems(a.times[0])]
	set := newPathSet(append(a.times[:len(a.times):len(a.times)], list)...)
	set.list, set.where = 1<<len(a.times), newJSONProgram([]condition{*a.where}, false)
	return set
}

// lastItems returns the index of the path's last step to all items of an array, or 0.
func lastItems(p jsonPath) int {
	for i := len(p) - 1; i > 0; i-- {
		if p[i].index == allItems {
			return i
		}
	}
	return 0
}

// properties returns the properties of the audio that clients can choose.
func (a *audioSpec) properties() [3]*choiceSpec {
	return [...]*choiceSpec{&a.encoding, &a.rate, &a.channels}
}
