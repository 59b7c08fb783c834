package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// dialogue is what a server says on one connection. It does no I/O, and belongs to the connection's loop.
type dialogue interface {
	// hear says what the server says to a message, which is valid during the call.
	hear(v *voice, kind frame.Opcode, message []byte)
}

// greeter is a dialogue in which the server says something before it was told anything.
type greeter interface{ greet(v *voice) }

// role is what a message is in its protocol. NastyOptions go by it.
type role uint8

const (
	remark  role = iota // anything else
	opening             // a greeting, or that the server is ready for audio
	partial             // a result that may change
	final               // a result that does not
	last                // the last message of a session: the acknowledgement of its end
)

// resultRole returns the role of a result that ends its utterance, or does not.
func resultRole(ends bool) role {
	if ends {
		return final
	}
	return partial
}

// reply is one message of a server, or the end of the connection, or both.
type reply struct {
	role    role
	kind    frame.Opcode    // Text or Binary; Continuation (0) for no message
	payload []byte          // of the message
	closing frame.CloseCode // the server closes the connection behind the message; 0 when it does not
	reason  string          // why it closes
	late    time.Duration   // how much later it is sent, out of order
	delay   time.Duration   // how much later it and all following replies are sent
}

// The delays of late messages.
const (
	lateBy    = 3 * time.Millisecond
	latest    = 20 * time.Millisecond // more than that: a busy machine would make it later than any server is, so a partial result is left out
	greetLate = 100 * time.Millisecond
)

// voice collects what a dialogue says to one message. Payloads are valid until the next.
type voice struct {
	said []reply

	// Static.
	nasty *NastyOptions
	dice  *rand.Rand
	// place takes a place for a session on the server, if the connection has none yet, and reports whether there was one.
	place func() bool
	// sessions are those that clients of the server may resume, by id.
	sessions *sync.Map

	lastPartial []byte // of the session under way, when late ones are asked for
	partialKind frame.Opcode
	before      reply // the last message of the session before, when foreign ones are asked for
}

// text says a text message.
func (v *voice) text(r role, format string, args ...any) {
	v.say(reply{role: r, kind: frame.Text, payload: fmt.Appendf(nil, format, args...)})
}

// binary says a binary message.
func (v *voice) binary(r role, message []byte) {
	v.say(reply{role: r, kind: frame.Binary, payload: message})
}

// end closes the connection.
func (v *voice) end(code frame.CloseCode, reason string) {
	v.say(reply{closing: code, reason: reason})
}

func (v *voice) say(r reply) { v.said = append(v.said, r) }

// hit returns true with probability p.
func (v *voice) hit(p float64) bool { return p > 0 && v.dice.Float64() < p }

// quote returns a text as a JSON string.
func quote(text string) []byte { return inJSON(text) }

// inJSON returns a value as JSON.
func inJSON(value any) []byte {
	b, _ := json.Marshal(value) // never fails for what is said here
	return b
}

// misbehave changes the replies as NastyOptions say.
func (v *voice) misbehave() {
	if *v.nasty == (NastyOptions{}) {
		return
	}
	v.separateEnd()
	closes := len(v.said) > 0 && v.said[len(v.said)-1].closing != 0
	v.delayGreeting()
	v.overtake(closes)
	v.repeatForeign()
	v.addLatePartial(closes)
}

// separateEnd makes the end of the connection, if any, a separate reply, the last one.
func (v *voice) separateEnd() {
	for i, r := range v.said {
		if r.closing == 0 {
			continue
		}
		v.said = v.said[:i+1]
		if r.kind != frame.Continuation {
			v.said[i].closing, v.said[i].reason = 0, ""
			v.end(r.closing, r.reason)
		}
		return
	}
}

func (v *voice) delayGreeting() {
	for i := range v.said {
		if v.said[i].role == opening && v.hit(v.nasty.GreetingDelayed) {
			v.said[i].delay = greetLate
		}
	}
}

// overtake moves the final results behind the acknowledgement.
func (v *voice) overtake(closes bool) {
	end := v.index(last)
	if end < 0 || v.index(final) < 0 || v.index(final) > end || !v.hit(v.nasty.OvertakenFinal) {
		return
	}
	var front, behind []reply
	for _, r := range v.said[:end] {
		if r.role != final {
			front = append(front, r)
			continue
		}
		if !closes { // otherwise nothing can follow later
			r.late = lateBy
		}
		behind = append(behind, r)
	}
	v.said = slices.Concat(front, v.said[end:end+1], behind, v.said[end+1:])
}

// repeatForeign repeats the last message of the previous session before the end of this one.
func (v *voice) repeatForeign() {
	end := v.index(last)
	if v.nasty.ResetForeign == 0 || end < 0 {
		return
	}
	ended := v.said[end]
	ended.payload = bytes.Clone(ended.payload)
	if v.before.kind != frame.Continuation && v.hit(v.nasty.ResetForeign) {
		first := slices.IndexFunc(v.said, func(r reply) bool { return r.role == final || r.role == last })
		v.said = slices.Insert(v.said, first, v.before)
	}
	v.before = ended
}

// addLatePartial repeats the last partial result of the session after its final one.
func (v *voice) addLatePartial(closes bool) {
	if v.nasty.LatePartials == 0 {
		return
	}
	if i := v.index(partial); i >= 0 {
		v.lastPartial, v.partialKind = bytes.Clone(v.said[i].payload), v.said[i].kind
	}
	ends := v.index(last) >= 0
	if (ends || v.index(final) >= 0) && v.lastPartial != nil && v.hit(v.nasty.LatePartials) {
		r := reply{kind: v.partialKind, payload: v.lastPartial, late: lateBy}
		if closes { // nothing can follow later
			r.late = 0
			v.said = slices.Insert(v.said, len(v.said)-1, r)
		} else {
			v.say(r)
		}
	}
	if ends {
		v.lastPartial = nil
	}
}

// index returns the place of the last reply of that role, or -1.
func (v *voice) index(of role) int {
	for i, r := range slices.Backward(v.said) {
		if r.role == of {
			return i
		}
	}
	return -1
}
