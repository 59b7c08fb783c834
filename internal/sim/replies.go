package sim

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// dialogue is what a server says to whole messages. It does no I/O.
type dialogue interface {
	// hear takes a message and returns what is said to it. The message is valid during the call, the reply until the
	// next.
	hear(kind frame.Opcode, message []byte) reply
}

// reply is what is said to a message.
type reply struct {
	kind    frame.Opcode    // Text or Binary; Continuation (0) for no answer
	payload []byte          // of the answer
	closing frame.CloseCode // the server closes the connection behind the answer; 0 when it does not
	reason  string          // why it closes
}

// answer is a reply on its way.
type answer struct {
	reply
	fate fate
	due  time.Time
}

// The most that is kept of answers that are not due yet, before reading is paused.
const (
	maxQueuedBytes = 256 << 10
	maxQueued      = 4096
)

// maxKept is the largest buffer for a message that is kept for the next one, in bytes.
const maxKept = 16 << 10

// replies collects a connection's messages, has them answered, and sends the answers in order when they are due.
type replies struct {
	conn     *conn
	dialogue dialogue
	dice     *rand.Rand
	pests    *pests // sends messages nobody asked for; nil when it is not asked to

	kind    frame.Opcode // of the message under way
	message []byte       // what has arrived of it

	queue  []answer
	queued int // bytes of the payloads in queue
	timer  loop.Timer
}

func newReplies(k *conn, dice *rand.Rand) *replies {
	r := &replies{conn: k, dice: dice}
	switch k.server.options.Protocol {
	case Vosk:
		r.dialogue = newVoskDialogue()
	default:
		r.dialogue = echoDialogue{}
	}
	if f := &k.server.options.Fail; f.Greeting || f.Late > 0 || f.Chatter > 0 {
		r.pests = &pests{conn: k}
	}
	return r
}

// start begins to speak, when the connection has come to its loop.
func (r *replies) start() {
	if r.pests != nil {
		r.pests.start()
	}
}

// stop forgets everything that was still to be said.
func (r *replies) stop() {
	r.queue, r.queued, r.message = nil, 0, nil
	r.timer.Stop()
	if r.pests != nil {
		r.pests.stop()
	}
}

// take adds a piece of a frame to its message, and answers the message when that is complete.
func (r *replies) take(p piece) {
	if p.first && p.header.Opcode != frame.Continuation {
		r.kind = p.header.Opcode
	}
	complete := p.last && p.header.Fin
	if complete && len(r.message) == 0 {
		r.answer(p.payload) // whole as it came: no need to copy it
		return
	}
	r.message = append(r.message, p.payload...)
	if complete {
		message := r.message
		r.message = nil
		if cap(message) <= maxKept {
			r.message = message[:0]
		}
		r.answer(message)
	}
}

// answer answers a message, at once or later.
func (r *replies) answer(message []byte) {
	if r.conn.stalled {
		return
	}
	said := r.dialogue.hear(r.kind, message)
	if said.kind == frame.Continuation && said.closing == 0 {
		return
	}
	o := &r.conn.server.options
	a := answer{reply: said, fate: o.Fail.draw(r.dice)}
	delay := o.Latency
	if o.Jitter > 0 {
		delay += time.Duration(r.dice.Int64N(int64(o.Jitter) + 1))
	}
	if delay == 0 && len(r.queue) == 0 {
		r.carryOut(&a)
		return
	}
	a.payload = bytes.Clone(a.payload)
	a.due = time.Now().Add(delay)
	if n := len(r.queue); n > 0 && r.queue[n-1].due.After(a.due) {
		a.due = r.queue[n-1].due // not before the last one
	}
	r.queue = append(r.queue, a)
	r.queued += len(a.payload)
	if len(r.queue) == 1 {
		r.timer.Set(r.conn.socket.Loop(), delay, r.sendDue)
	}
}

// full tells whether no more messages should be read for now.
func (r *replies) full() bool { return r.queued > maxQueuedBytes || len(r.queue) > maxQueued }

// sendDue sends the answers whose time has come.
func (r *replies) sendDue() {
	now := time.Now()
	for len(r.queue) > 0 && !r.queue[0].due.After(now) {
		a := r.queue[0]
		r.queue[0] = answer{}
		r.queue = r.queue[1:]
		r.queued -= len(a.payload)
		r.carryOut(&a) // may stop everything and empty the queue
	}
	if len(r.queue) == 0 {
		r.queue = nil
	} else {
		r.timer.Set(r.conn.socket.Loop(), time.Until(r.queue[0].due), r.sendDue)
	}
	r.conn.flush()
}

// carryOut sends an answer, or does to the connection what fate has in store instead.
func (r *replies) carryOut(a *answer) {
	k := r.conn
	switch a.fate.verdict {
	case resets:
		k.flush()
		k.cut()
		return
	case closes:
		k.closeWith(k.server.options.Fail.CloseCode, "closed on request")
		return
	case stalls:
		k.stalled = true
		r.stop()
		return
	}
	if a.kind != frame.Continuation {
		before := len(k.lane.out)
		k.lane.out = frame.Append(k.lane.out, frame.Header{Fin: true, Opcode: a.kind}, a.payload)
		if a.fate.verdict == breaksOff {
			k.lane.out = k.lane.out[:(before+len(k.lane.out)+1)/2]
			k.hangUp()
			return
		}
	}
	if a.closing != 0 {
		k.closeWith(a.closing, a.reason)
		return
	}
	if a.fate.late {
		r.pests.sendLate()
	}
}

// echoDialogue answers every message with the same message.
type echoDialogue struct{}

func (echoDialogue) hear(kind frame.Opcode, message []byte) reply {
	return reply{kind: kind, payload: message}
}
