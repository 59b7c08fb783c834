package profile

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Position is a place in a session's audio: how many bytes of decoded audio the client has sent before it.
type Position int64

// EntryKind says what becomes of a client's message when another server continues the session.
type EntryKind uint8

const (
	// EntryOther: it is sent again at its position.
	EntryOther EntryKind = iota
	// EntryAudio: it is sent again if it is not finally answered.
	EntryAudio
	// EntryConfiguration: it is sent again before everything else, see [Tracker.Configuration].
	EntryConfiguration
	// EntryTransient: it is not sent again.
	EntryTransient
	// EntryEnd: the client's end message. It is sent again at its position.
	EntryEnd
)

// Entry is a message of the client as the tracker sees it.
type Entry struct {
	Kind     EntryKind
	marks    bool     // it is a marker: an answer names it by its place among them
	replied  bool     // the server replies to it
	counted  bool     // its answer looks like the one to the client's end message
	number   uint32   // of the client's messages, from 1; 0 for one of Configuration
	From, To Position // of its audio; both are the position at which it came if it has none
}

// Leg is what a tracker must know of a connection that begins to serve its session.
type Leg struct {
	// From is the first audio that this server will get.
	From Position
	// Heard is how many bytes of audio the connection got in earlier sessions.
	Heard int64
}

// Judgement is what becomes of a message from the server.
type Judgement struct {
	// Pass: the client gets Payload: the message itself, or what the tracker made of it. It is valid until the next call of
	// ServerMessage.
	Pass    bool
	Payload []byte
	// Final reports that it is a result that is no longer revised, and Answer that it answers the client for good.
	Final, Answer bool
	// Sign: the message shows that the server works: see [StallSign].
	Sign bool
	// GoAway: the server says that it ends the session soon, or now. The client need not know if its session moves.
	GoAway bool
}

// Tracker follows one session's audio, results, times and numbers, whichever servers serve it one after the other. It is data: it does no
// I/O, has no clock and calls nothing. It belongs to the owner of the session.
//
// The caller reports each whole message of the client once, when it has come (ClientMessage), and each time that it is sent to a server
// (Sent). It reports when a connection begins to serve the session (Begin), and presents whole messages of the server (ServerMessage).
//
// Its memory is bounded. Where a bound is reached, the session can no longer be taken over, and Whole says why.
type Tracker struct {
	program *trackerProgram
	whole   string // why the session cannot be taken over; empty if it can

	// The client's messages.
	chosen        [3]string // encoding, rate and channels, as the profile names them
	format        format
	received      Position
	spoken        uint64 // messages with audio
	number        uint32 // messages
	configuration []kept
	// configured is how many bytes of configuration have come, and merging how many were read to merge them.
	configured, merging int

	// What is finally answered: audio up to a position, and messages at that position up to a number.
	answered        Position
	answeredNumber  uint32
	markedNumber    uint32 // the last marker that an answer has named
	concludedNumber uint32 // no server is to get messages up to this one again
	sentNumber      uint32 // the last message that any server was sent
	replied         uint32 // the last message whose reply the client has got (counting)

	// The present leg.
	leg              Leg
	legs             int
	zero             int64    // the position at which the server's clock began; it may be before the session's beginning
	start            Position // what was answered when it began
	startNumber      uint32   // messages that had come when it began
	startSent        uint32   // the last message that any server had been sent
	delivered        Position
	acknowledgements int    // that the server owes, of messages that are counted
	endNumber        uint32 // of the last message that the server was sent and that is not transient
	endSent          bool   // that one is the client's end message
	caughtUp         bool
	failed           bool // the server has told the client that the session has failed
	goesAway         bool // it has said that it ends the session, which another server may continue
	nextOf           int  // 1 + the index of the answer whose position the next message has; 0 for none
	again            bool // the client has had the server's first final, since nothing told where it ended
	resent           []kept
	resentCount      int // of resent, how many were sent
	owed             replies
	marks            replies            // the markers that have no answer yet, nor a receipt
	items            []item             // what the server has made of those that have one, up to the last that is answered with all before it
	receipts         bool               // the present server sends them
	tasks            tasks              // what was asked of them; only if the program has tasks
	greeted          [maxEntries]uint16 // messages of each entry of hide

	// What the client has got.
	base    int64            // the position at which its own clock began: 0 until the server has answered an end message
	debt    int              // replies in advance (counting)
	had     [maxEntries]bool // messages of each entry of hide
	asked   bool             // the client's last configuration message is to be answered with a greeting (greetsAgain)
	numbers []numbering
	kept    itemList // of former legs
	latest  itemList // of the last message

	// Memory for the next message.
	hits   []hit
	out    []byte
	second []byte
}

// maxKeptHits is how many hits, and maxKeptOut how many bytes of a rewritten message, a tracker keeps memory for.
const (
	maxKeptHits = 256
	maxKeptOut  = 16 << 10
)

// NewTracker returns the tracker of a session with a server of the profile, whose client's URL has this raw query.
func NewTracker(p *Profile, query string) *Tracker { return newTracker(p.program.tracker, query) }

func newTracker(program *trackerProgram, query string) *Tracker {
	t := &Tracker{program: program, caughtUp: true}
	t.fromQuery(query)
	if n := len(program.renumber); n > 0 {
		t.numbers = make([]numbering, n)
		for i := range t.numbers {
			t.numbers[i].next = program.renumber[i].first
		}
	}
	return t
}

// Whole returns why the session can no longer be taken over, such as audio whose bytes are no time; empty if it can.
func (t *Tracker) Whole() string { return t.whole }

// giveUp records that the session can no longer be taken over. The first reason stays.
func (t *Tracker) giveUp(why string) {
	if t.whole == "" {
		t.whole = why
	}
}

// NeedsPayload reports whether ClientMessage needs the payload of a message of this kind and length in bytes.
func (t *Tracker) NeedsPayload(op frame.Opcode, size int) bool {
	return size > 0 && size <= t.longest(op)
}

// longest returns the length of the longest payload that ClientMessage needs.
func (t *Tracker) longest(op frame.Opcode) int {
	p := t.program
	if op == frame.Text && (p.audioPath != nil || p.heard.choices != nil) || op == frame.Binary && p.Failover.audio.floats != "" {
		return maxMessage
	}
	return p.fromClient.limit[op]
}

// ClientMessage takes a whole message of the client. payload is not masked; nil if NeedsPayload does not ask for it. size is its
// length in bytes.
func (t *Tracker) ClientMessage(op frame.Opcode, payload []byte, size int) Entry {
	p := t.program
	if t.number++; t.number == math.MaxUint32 {
		t.giveUp("the client sent too many messages")
	}
	f := p.long[op]
	if size == len(payload) && size <= p.fromClient.limit[op] {
		f = p.fromClient.match(op, payload, 0)
	}
	e := Entry{
		From: t.received, To: t.received, number: t.number,
		replied: p.replies && f.class&isUnanswered == 0, counted: f.class&(isCounted|isEnd) != 0, marks: f.class&isAnyMarker != 0,
	}
	if p.tasks {
		t.tasks.follow(f)
		e.marks = false
	}
	configures := f.class & p.configuration &^ (f.class / (isExcepted(0) / isConfiguration(0)))
	switch {
	case f.class&isEnd != 0:
		e.Kind = EntryEnd
	case f.class&isForgotten != 0:
		e.Kind = EntryTransient
	case configures != 0:
		e.Kind = EntryConfiguration
		t.configure(&e, configures, op, payload, size)
	case f.class&isAudio != 0:
		t.audio(&e, op, payload, size)
	case f.doubt&p.decisive != 0:
		t.spoken++ // it may be audio
		t.giveUp("the client sent a message that the profile's matchers cannot judge")
	}
	if p.heard.choices != nil && op == frame.Text && e.Kind != EntryAudio && size == len(payload) {
		t.fromMessage(payload)
	}
	return e
}

// configure keeps a configuration message.
func (t *Tracker) configure(e *Entry, roles class, op frame.Opcode, payload []byte, size int) {
	if size != len(payload) {
		t.giveUp("the client sent a configuration message that is too long to keep")
		return
	}
	for i := range t.program.configure {
		if roles&isConfiguration(i) != 0 {
			t.asked = t.program.greetsAgain
			t.keepConfiguration(i, op, payload, e)
			return
		}
	}
}

// audio counts an audio message.
func (t *Tracker) audio(e *Entry, op frame.Opcode, payload []byte, size int) {
	n, ok := t.audioLength(op, payload, size)
	if n > 0 || !ok {
		t.spoken++
	}
	switch {
	case !ok:
		t.giveUp("the client sent audio whose length cannot be told")
	case n == 0: // such as an empty message
		return
	case n > maxEntryAudio || int64(n) > int64(maxEntryTo-t.received):
		t.giveUp("the client sent too much audio")
		return
	case !t.format.fixed && t.whole == "":
		f, why := readFormat(t.chosen)
		if t.format = f; why != "" {
			t.giveUp(why)
		}
	}
	e.Kind = EntryAudio
	t.received += Position(n)
	e.To = t.received
}

// Begin reports that a connection begins to serve the session. For all but the first, the caller sends what Configuration returns, and
// then, in order, the messages for which Resend is true, the first one cut if leg.From is in it.
func (t *Tracker) Begin(leg Leg) {
	t.leg, t.delivered, t.zero = leg, leg.From, int64(leg.From)
	if t.program.Continues {
		t.zero -= leg.Heard
	}
	t.start, t.startNumber, t.startSent = t.answered, t.number, t.sentNumber
	t.endSent, t.failed, t.goesAway, t.again, t.nextOf = false, false, false, t.again || t.nextOf > 0, 0
	t.acknowledgements = 0
	t.owed.clear()
	t.forgetMarks()
	if t.legs++; t.legs == 1 {
		return
	}
	t.caughtUp = false
	if t.asked { // the greeting of this server is the answer
		clear(t.had[:])
	}
	t.resent, t.resentCount = t.configuration, 0
	clear(t.greeted[:])
	for i := range t.numbers {
		t.numbers[i].begin(t.program.renumber[i].first)
	}
	t.kept.set(&t.latest)
}

// Resend reports whether the present server is to get a message of the client. It may ask about any message that has come. The answer is
// true for all messages on the first leg. On later ones it is false for what is finally answered, for what Configuration
// contains, and for what is never sent again.
func (t *Tracker) Resend(e Entry) bool {
	switch {
	case t.legs <= 1:
		return true
	case e.Kind == EntryConfiguration:
		return e.number > t.startNumber
	case e.Kind == EntryTransient:
		return e.number > t.startSent
	}
	return !t.Done(e)
}

// Done reports whether a message of the client is finally answered, so that no server needs to get it again.
func (t *Tracker) Done(e Entry) bool {
	if t.program.counts {
		return e.number <= t.answeredNumber && e.replied || e.To < t.answered
	}
	switch {
	case e.number <= t.concludedNumber:
		return true
	case e.To > t.answered:
		return false
	case e.Kind == EntryEnd && e.number == t.number && (!e.marks || e.number > t.markedNumber): // the client may wait for what the server says at last
		return false
	case e.To < t.answered:
		return true
	}
	return e.number <= t.answeredNumber
}

// Sent reports that a message of the client was sent to the present server, or one of the messages of Configuration (with an Entry that has
// only its Kind, EntryConfiguration). It counts as sent, too, if the connection's boundary replaced the client's end message by the profile's reset.
func (t *Tracker) Sent(e Entry) {
	if e.Kind == EntryConfiguration && e.number == 0 {
		if t.resentCount < len(t.resent) {
			k := &t.resent[t.resentCount]
			t.resentCount++
			if k.replied {
				t.owe(reply{hide: true, to: t.delivered})
			}
			if k.counted {
				t.acknowledgements++
			}
		}
		return
	}
	if e.counted {
		t.acknowledgements++
	}
	if e.Kind == EntryTransient {
		if t.program.Stall == StallAsked { // the client no longer wants what it has asked for
			t.forgetMarks()
		}
	} else {
		if t.endSent && t.program.concludes {
			t.giveUp("the client went on before the server had answered its end message")
		}
		t.endSent = e.Kind == EntryEnd
		t.endNumber = e.number
	}
	t.sentNumber = max(t.sentNumber, e.number)
	t.delivered = max(t.delivered, e.To)
	if e.replied {
		t.owe(reply{number: e.number, to: e.To})
	}
	if e.marks && !t.marks.push(reply{number: e.number, to: e.To}) {
		t.giveUp("the server owes too many answers")
	}
}

// owe records that the server is to reply.
func (t *Tracker) owe(r reply) {
	if !t.owed.push(r) {
		t.giveUp("the server owes too many replies")
	}
}

// CaughtUp reports that the present server has got everything that the former one had got, so that partial results pass again.
func (t *Tracker) CaughtUp() { t.caughtUp = true }

// Answered returns up to where the session's audio is finally answered. Another server need not get it.
func (t *Tracker) Answered() Position { return t.answered }

// Received returns how much audio has come from the client, and Delivered how much of it the present server has got.
func (t *Tracker) Received() Position  { return t.received }
func (t *Tracker) Delivered() Position { return t.delivered }

// Spoken returns how many messages with audio, or of which that is not known, have come from the client.
func (t *Tracker) Spoken() uint64 { return t.spoken }

// Heard returns how many bytes of audio the present connection has got in this session, to add to the Heard of the next session's Leg.
func (t *Tracker) Heard() int64 { return int64(t.delivered - t.leg.From) }

// Unanswered returns how many messages of the client wait for a reply of the present server, where each gets one (StallReplies), or for the
// results that they asked for (StallAsked).
func (t *Tracker) Unanswered() int {
	if t.program.Stall != StallAsked {
		return t.owed.count
	}
	n := t.marks.count + len(t.items) + t.tasks.unanswered()
	if t.endSent {
		n++
	}
	return n
}

// Behind returns how long the audio lasts that the client has sent since the oldest that is not answered, and whether any is not. ok is false if the
// profile's answers do not tell how far they go, or the format is not known.
func (t *Tracker) Behind() (behind time.Duration, unanswered, ok bool) {
	from := t.answered
	if t.program.Stall == StallReplies {
		if t.owed.count == 0 {
			return 0, false, true
		}
		from = t.owed.ring[t.owed.first].to
	} else if !t.program.measures || t.whole != "" {
		return 0, false, false
	}
	return t.Duration(int64(t.received - from)), t.program.Stall == StallReplies || t.received > from, t.format.fixed
}

// LastWord reports whether a server that closes with the code has said its last word to the session, so that no other server is to continue it.
func (t *Tracker) LastWord(code frame.CloseCode) bool {
	if t.endSent && (code == frame.NormalClosure || code == frame.NoStatus) {
		return true
	}
	if t.failed || t.program.counts && t.endSent && t.answeredNumber >= t.endNumber {
		return true
	}
	return !t.goesAway && inRanges(uint16(code), t.program.lastWord.close)
}

// conclude records that the server has answered the client's end message: what the client sends next begins anew, with the server's clock at 0.
func (t *Tracker) conclude() {
	t.answered, t.answeredNumber, t.concludedNumber = t.delivered, t.sentNumber, t.sentNumber
	t.zero, t.base, t.start = int64(t.delivered), int64(t.delivered), t.delivered
	t.endSent, t.again, t.nextOf = false, false, 0
	if !t.program.settingsStay {
		t.configuration = nil
		clear(t.had[:])
	}
	for i := range t.numbers {
		t.numbers[i] = numbering{next: t.program.renumber[i].first}
	}
	t.kept.reset()
	t.latest.reset()
}

// positionOf returns the position for a time of the present server, at most what it has got.
func (t *Tracker) positionOf(nanos int64) Position {
	n := t.format.bytesFor(nanos)
	if n > int64(t.delivered)-t.zero {
		return t.delivered
	}
	at := t.zero + n
	if size := t.format.frameSize(); size > 0 && at != int64(t.delivered) {
		at -= at % size
	}
	return Position(at)
}

// answer records that audio up to a position is finally answered, and messages up to a number; 0 for all that were sent.
func (t *Tracker) answer(at Position, number uint32) {
	if number == 0 {
		number = t.sentNumber
	}
	if at = min(at, t.delivered); at >= t.answered {
		t.answered, t.answeredNumber = at, max(t.answeredNumber, number)
	}
}

// EntrySize is the length of an encoded [Entry] in bytes.
const EntrySize = 13

// An encoded entry has the number in its first four bytes. The next eight have From and the low bits of the audio's length; the last one has
// the kind, the flags and the high bits of that length. It is small because a session keeps one for each message.
const (
	entryFrom  = 43 // bits: years of audio
	entryLow   = 64 - entryFrom
	entryAudio = entryLow + 2
	entryFlags = 3 // where the flags begin in the last byte, behind the kind
	entryHigh  = 6 // where the high bits of the audio's length begin in it

	maxEntryTo    = 1<<entryFrom - 1
	maxEntryAudio = 1<<entryAudio - 1
)

// Encode writes the entry to b, which has at least EntrySize bytes. The entry must be one that a tracker has made.
func (e Entry) Encode(b []byte) {
	audio := e.To - e.From
	if e.From < 0 || e.To > maxEntryTo || audio < 0 || audio > maxEntryAudio {
		panic(fmt.Sprintf("profile: an entry with audio from %d to %d", e.From, e.To))
	}
	last := uint8(e.Kind) | uint8(audio>>entryLow)<<entryHigh
	for bit, flag := range [...]bool{e.marks, e.replied, e.counted} {
		if flag {
			last |= 1 << (entryFlags + bit)
		}
	}
	binary.LittleEndian.PutUint32(b, e.number)
	binary.LittleEndian.PutUint64(b[4:], uint64(e.From)|uint64(audio)<<entryFrom)
	b[12] = last
}

// DecodeEntry returns the entry that Encode wrote.
func DecodeEntry(b []byte) (e Entry) {
	from, last := binary.LittleEndian.Uint64(b[4:]), b[12]
	e.number = binary.LittleEndian.Uint32(b)
	e.Kind = EntryKind(last & (1<<entryFlags - 1))
	e.marks, e.replied, e.counted = last>>entryFlags&1 != 0, last>>entryFlags&2 != 0, last>>entryFlags&4 != 0
	e.From = Position(from & maxEntryTo)
	e.To = e.From + Position(from>>entryFrom|uint64(last>>entryHigh)<<entryLow)
	return e
}
