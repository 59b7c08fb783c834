package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// answer is a reply with its fate and its time.
type answer struct {
	reply
	fate fate
	due  time.Time
}

// When more than this is queued, reading is paused.
const (
	maxQueuedBytes = 256 << 10
	maxQueued      = 4096
)

// maxKept is the size of the largest message buffer that is reused, in bytes.
const maxKept = 16 << 10

// replies assembles the messages of a connection, lets the dialogue answer them, and sends the answers in order when they are due.
// The loop of the connection owns it.
type replies struct {
	conn        *conn
	dialogue    dialogue
	voice       voice
	dice        *rand.Rand
	unsolicited *unsolicited // sends unsolicited messages; nil without them

	kind    frame.Opcode // of the current message
	message []byte       // what has arrived of it

	kept      []keptMessage // came while the server was stalled
	keptBytes int
	busyUntil time.Time // the recogniser decodes what it has heard until then, if the server is slow

	queue schedule
	late  schedule // answers out of order

	silence  silence
	age      loop.Timer // until the connection has lived for FailOptions.Age, or Notice before
	noticed  bool       // it was Notice before
	underWay bool       // a session is: see clientEnds
}

// schedule holds answers until they are due.
type schedule struct {
	purpose loop.Purpose // of the timer
	answers []answer     // by their times
	bytes   int          // of their payloads
	timer   loop.Timer
}

// poison is the word that makes a server stumble: see FailOptions.Poison.
var poison = []byte("poison")

// keptMessage is a message that the server has not answered yet.
type keptMessage struct {
	kind    frame.Opcode
	message []byte
}

func newReplies(k *conn, request *http.Request, dice *rand.Rand) *replies {
	o := &k.server.options
	r := &replies{conn: k, dice: dice, dialogue: k.server.dialogueFor(request), queue: schedule{purpose: timerReply}, late: schedule{purpose: timerLateReply}}
	r.voice = voice{nasty: &o.Nasty, dice: dice, place: k.place, sessions: &k.server.sessions}
	if f := &o.Fail; f.Greeting || f.Late > 0 || f.Chatter > 0 {
		r.unsolicited = &unsolicited{conn: k}
	}
	r.silence = silence{conn: k, limit: cmp.Or(o.Silence, k.server.protocol.Silence)}
	return r
}

// start sends the greeting when the connection has reached its loop.
func (r *replies) start() {
	r.silence.start()
	if f := &r.conn.server.options.Fail; f.Age > 0 {
		r.age.Set(r.conn.socket, f.Age-f.Notice, timerAge)
	}
	if r.unsolicited != nil {
		r.unsolicited.start()
	}
	if d, ok := r.dialogue.(greeter); ok {
		d.greet(&r.voice)
	}
	r.speak()
}

// stop drops all answers that were not sent yet.
func (r *replies) stop() {
	r.message, r.kept, r.keptBytes = nil, nil, 0
	for _, s := range []*schedule{&r.queue, &r.late} {
		s.answers, s.bytes = nil, 0
		s.timer.Stop()
	}
	r.silence.stop()
	r.age.Stop()
	if r.unsolicited != nil {
		r.unsolicited.stop()
	}
}

// aged says that the connection has lived almost for as long as the server allows, or ends it.
func (r *replies) aged() {
	k, f := r.conn, &r.conn.server.options.Fail
	if k.stalled || k.dead {
		return
	}
	if f.Notice > 0 && !r.noticed {
		r.noticed = true
		r.voice.text(remark, `{"goAway":{"timeLeft":"%gs"}}`, f.Notice.Seconds())
		r.age.Set(k.socket, f.Notice, timerAge)
	} else if d, ok := r.dialogue.(interface{ expire(v *voice) }); ok {
		d.expire(&r.voice)
	} else {
		r.voice.end(frame.GoingAway, "")
	}
	r.speak()
	k.flush()
}

// take adds a piece of a frame to its message, and answers the message when that is complete.
func (r *replies) take(p piece) {
	if p.first && p.header.Opcode != frame.Continuation {
		r.kind = p.header.Opcode
	}
	complete := p.last && p.header.Fin
	if complete && len(r.message) == 0 {
		r.takeWhole(p.payload) // a whole message needs no copy
		return
	}
	r.message = append(r.message, p.payload...)
	if complete {
		message := r.message
		r.message = nil
		if cap(message) <= maxKept {
			r.message = message[:0]
		}
		r.takeWhole(message)
	}
}

// takeWhole takes a whole message.
func (r *replies) takeWhole(message []byte) {
	r.silence.broken()
	r.heard()
	switch {
	case r.conn.stalled || r.conn.dead:
	case r.conn.server.stalled.Load() || len(r.kept) > 0:
		r.kept = append(r.kept, keptMessage{r.kind, bytes.Clone(message)})
		r.keptBytes += len(message)
	default:
		r.answer(r.kind, message)
	}
}

// resume answers what came while the server was stalled.
func (r *replies) resume() {
	for len(r.kept) > 0 && !r.conn.stalled && !r.conn.dead { // answering may stop everything and empty the list
		m := r.kept[0]
		r.kept = r.kept[1:]
		r.keptBytes -= len(m.message)
		r.answer(m.kind, m.message)
	}
	r.kept, r.keptBytes = nil, 0
	for _, s := range []*schedule{&r.queue, &r.late} {
		if len(s.answers) > 0 {
			r.sendDue(s)
		}
	}
}

// answer answers a message, at once or later.
func (r *replies) answer(kind frame.Opcode, message []byte) {
	if r.conn.server.options.Fail.Poison && bytes.Contains(message, poison) {
		r.conn.closeWith(frame.InternalError, "poison")
		return
	}
	if r.voice.hit(r.voice.nasty.SilentDeath) {
		r.conn.dead = true
		return
	}
	before := r.length()
	r.dialogue.hear(&r.voice, kind, message)
	if factor := r.conn.server.slowness(); factor > 0 {
		now := time.Now()
		if r.busyUntil.Before(now) {
			r.busyUntil = now
		}
		if need := time.Duration(factor * float64(max(0, r.length()-before))); need > 0 {
			r.busyUntil = r.conn.server.cores.decode(r.busyUntil, need)
		}
	}
	r.speak()
}

// length returns how much audio the dialogue has heard, as far as it knows.
func (r *replies) length() time.Duration {
	if d, ok := r.dialogue.(interface{ length() time.Duration }); ok {
		return d.length()
	}
	return 0
}

// speak sends what the dialogue said, at once or later.
func (r *replies) speak() {
	r.voice.misbehave()
	for i := range r.voice.said {
		if r.conn.ended || r.conn.stalled {
			break
		}
		r.send(r.voice.said[i])
		r.voice.said[i] = reply{}
	}
	r.voice.said = r.voice.said[:0]
}

// send sends a reply, at once or later.
func (r *replies) send(said reply) {
	o := &r.conn.server.options
	a := answer{reply: said, fate: o.Fail.draw(r.dice)}
	if (a.role == partial || a.role == final) && a.fate.verdict == answers && r.voice.hit(o.Nasty.CloseMidMessage) {
		a.fate.verdict = endsInMessage
	}
	delay := o.Latency + a.delay
	if o.Jitter > 0 {
		delay += time.Duration(r.dice.Int64N(int64(o.Jitter) + 1))
	}
	if !r.busyUntil.IsZero() {
		delay += max(0, time.Until(r.busyUntil))
	}
	switch {
	case a.reply.late > 0:
		r.put(&r.late, a, delay+a.reply.late)
	case delay == 0 && len(r.queue.answers) == 0:
		r.perform(&a)
	default:
		if n := len(r.queue.answers); n > 0 { // not before the last one
			delay = max(delay, time.Until(r.queue.answers[n-1].due))
		}
		r.put(&r.queue, a, delay)
	}
}

// put has an answer sent after a delay.
func (r *replies) put(s *schedule, a answer, delay time.Duration) {
	a.payload = bytes.Clone(a.payload)
	a.due = time.Now().Add(delay)
	s.bytes += len(a.payload)
	i := len(s.answers)
	for i > 0 && s.answers[i-1].due.After(a.due) {
		i--
	}
	if s.answers = slices.Insert(s.answers, i, a); i == 0 {
		s.timer.Set(r.conn.socket, delay, s.purpose)
	}
}

// full reports whether no more messages should be read for now.
func (r *replies) full() bool {
	return r.queue.bytes+r.keptBytes > maxQueuedBytes || len(r.queue.answers)+len(r.kept) > maxQueued
}

// sendDue sends the answers of a schedule whose time has come. A stalled server sends them when it continues.
func (r *replies) sendDue(s *schedule) {
	if r.conn.server.stalled.Load() {
		return
	}
	now := time.Now()
	for len(s.answers) > 0 && !s.answers[0].due.After(now) {
		a := s.answers[0]
		s.answers[0] = answer{}
		s.answers = s.answers[1:]
		s.bytes -= len(a.payload)
		if s == &r.late && a.role != final && now.Sub(a.due) > latest {
			continue
		}
		r.perform(&a) // may stop everything and empty the schedule
	}
	if len(s.answers) == 0 {
		s.answers = nil
	} else {
		s.timer.Set(r.conn.socket, time.Until(s.answers[0].due), s.purpose)
	}
	r.conn.flush()
}

// perform sends an answer, or does what its fate says instead.
func (r *replies) perform(a *answer) {
	k := r.conn
	r.told(a)
	switch a.fate.verdict {
	case resets:
		k.flush()
		k.cut()
		return
	case dies:
		k.die()
		k.server.runOutOfMemory()
		return
	case closes:
		k.closeWith(k.server.options.Fail.CloseCode, "closed on request")
		return
	case stalls:
		k.stalled = true
		r.stop()
		return
	}
	if a.kind != frame.Continuation && a.fate.verdict == endsInMessage {
		k.lane.out = frame.Append(k.lane.out, frame.Header{Opcode: a.kind}, a.payload[:len(a.payload)/2])
		k.closeWith(frame.InternalError, "failed in the middle of a message")
		return
	}
	if a.kind != frame.Continuation {
		before := len(k.lane.out)
		k.lane.out = frame.Append(k.lane.out, frame.Header{Fin: true, Opcode: a.kind}, a.payload)
		if a.fate.verdict == endsInFrame {
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
		r.unsolicited.sendLate()
	}
}

// verdict is what happens instead of an answer.
type verdict uint8

const (
	answers       verdict = iota
	resets                // FailOptions.Reset
	closes                // FailOptions.Close
	stalls                // FailOptions.Stall
	endsInFrame           // FailOptions.MidFrame
	dies                  // FailOptions.OOM
	endsInMessage         // NastyOptions.CloseMidMessage
)

// fate is what happens to the answer to a message.
type fate struct {
	verdict verdict
	late    bool // a late message follows the answer
}

// draw draws the fate of one answer. If it draws several failures, the first of the list above happens.
func (f *FailOptions) draw(dice *rand.Rand) (drawn fate) {
	hit := func(p float64) bool { return p > 0 && dice.Float64() < p }
	for _, possible := range [...]struct {
		verdict verdict
		p       float64
	}{{resets, f.Reset}, {closes, f.Close}, {stalls, f.Stall}, {endsInFrame, f.MidFrame}, {dies, f.OOM}} {
		// Each one is drawn, even if it no longer matters, so that the draws of later messages do not depend on it.
		if hit(possible.p) && drawn.verdict == answers {
			drawn.verdict = possible.verdict
		}
	}
	drawn.late = hit(f.Late)
	return drawn
}

// unsolicited sends messages that answer nothing: texts in JSON that say what they are. All messages to the client are whole frames,
// so these fit in between at any time.
type unsolicited struct {
	conn         *conn
	late         loop.Timer
	chatter      loop.Timer
	lateCount    int // late messages sent
	chatterCount int // chatter sent
}

// start sends the greeting and starts the chatter, if the options say so.
func (p *unsolicited) start() {
	if p.conn.server.options.Fail.Greeting {
		p.say(`{"greeting" : "hello"}`)
	}
	p.scheduleChatter()
}

func (p *unsolicited) stop() {
	p.late.Stop()
	p.chatter.Stop()
}

// sendLate schedules a late message, unless one is scheduled.
func (p *unsolicited) sendLate() {
	if p.late.Active() {
		return
	}
	p.late.Set(p.conn.socket, cmp.Or(p.conn.server.options.Fail.LateAfter, defaultLateAfter), timerUnasked)
}

// sendDueLate sends the scheduled late message.
func (p *unsolicited) sendDueLate() {
	p.lateCount++
	p.say(fmt.Sprintf(`{"late" : %d}`, p.lateCount))
	p.conn.flush()
}

// scheduleChatter schedules the next chatter, if the options say so.
func (p *unsolicited) scheduleChatter() {
	if every := p.conn.server.options.Fail.Chatter; every > 0 {
		p.chatter.Set(p.conn.socket, every, timerChatter)
	}
}

// chat sends the scheduled chatter.
func (p *unsolicited) chat() {
	p.scheduleChatter()
	if p.conn.socket.Pending() > 0 {
		return // nothing accumulates for a client that does not read
	}
	p.chatterCount++
	p.say(fmt.Sprintf(`{"chatter" : %d}`, p.chatterCount))
	p.conn.flush()
}

func (p *unsolicited) say(text string) {
	p.conn.lane.out = frame.Append(p.conn.lane.out, frame.Header{Fin: true, Opcode: frame.Text}, []byte(text))
}
