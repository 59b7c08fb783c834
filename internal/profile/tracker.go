package profile

import (
	"iter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Position is a place in a session's audio: how many bytes of decoded audio the client has sent before it.
type Position int64

// EntryKind says what becomes of a client's message when another server goes on with the session.
type EntryKind uint8

const (
	// EntryOther: it is sent again in its place.
	EntryOther EntryKind = iota
	// EntryAudio: it is sent again if it is not answered for good.
	EntryAudio
	// EntryConfiguration: it is sent again before everything else, see [Tracker.Configuration].
	EntryConfiguration
	// EntryTransient: it is not sent again.
	EntryTransient
	// EntryEnd: the client's end message. It is sent again in its place.
	EntryEnd
)

// Entry is a message of the client as the tracker sees it.
type Entry struct {
	Kind     EntryKind
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
	// Pass tells that the client gets Payload: the message itself, or what the tracker made of it. It is valid until the next call of
	// ServerMessage.
	Pass    bool
	Payload []byte
	// Final tells that it is a result that is not revised any more.
	Final bool
	// Sign tells that the message shows that the server works: see [StallSign].
	Sign bool
}

// Tracker follows one session's audio, results, times and numbers, whichever servers serve it one after the other. It is data: it does no
// I/O, has no clock and calls nobody. It belongs to the owner of the session.
//
// The caller reports each whole message of the client once, when it has come (ClientMessage), and each time that it is sent to a server
// (Sent). It reports when a connection begins to serve the session (Begin), and presents whole messages of the server (ServerMessage).
type Tracker struct {
	// (fields)
}

// NewTracker returns the tracker of a session with a server of the profile, whose client's URL has this raw query.
func NewTracker(p *Profile, query string) *Tracker { panic("not written yet") }

// Whole returns why the session cannot be taken over any more, such as audio whose bytes are no time; empty if it can.
func (t *Tracker) Whole() string { panic("not written yet") }

// InspectsClient returns the kinds of messages of the client whose payload ClientMessage needs. Of other kinds, it needs the length.
func (t *Tracker) InspectsClient() frame.Kinds { panic("not written yet") }

// ClientMessage takes a whole message of the client. payload is not masked; nil if InspectsClient does not name the kind. size is its
// length in bytes.
func (t *Tracker) ClientMessage(op frame.Opcode, payload []byte, size int) Entry {
	panic("not written yet")
}

// Begin reports that a connection begins to serve the session. For all but the first, the caller sends what Configuration returns, and
// then the messages from leg.From on.
func (t *Tracker) Begin(leg Leg) { panic("not written yet") }

// Configuration returns the messages by which the client has configured its server so far.
func (t *Tracker) Configuration() iter.Seq2[frame.Opcode, []byte] { panic("not written yet") }

// Sent reports that a message of the client was sent to the present server, or one of the messages of Configuration (with an
// EntryConfiguration).
func (t *Tracker) Sent(e Entry) { panic("not written yet") }

// CaughtUp reports that the present server has got everything that the former one had got, so that partial results pass again.
func (t *Tracker) CaughtUp() { panic("not written yet") }

// ServerMessage judges a whole message of the present server.
func (t *Tracker) ServerMessage(op frame.Opcode, payload []byte) Judgement { panic("not written yet") }

// Answered returns up to where the session's audio is answered for good. Another server need not get it.
func (t *Tracker) Answered() Position { panic("not written yet") }

// Received returns how much audio has come from the client, and Delivered how much of it the present server has got.
func (t *Tracker) Received() Position  { panic("not written yet") }
func (t *Tracker) Delivered() Position { panic("not written yet") }

// Cut appends to dst the payload of a message that has only the audio of e from a position on, between e.From and e.To. ok is false if the
// message cannot be cut.
func (t *Tracker) Cut(dst []byte, e Entry, payload []byte, at Position) (cut []byte, ok bool) {
	panic("not written yet")
}

// LastWord reports whether a server that closes with the code has said its last word to the session, so that no other server is to go on.
func (t *Tracker) LastWord(code frame.CloseCode) bool { panic("not written yet") }

// Heard returns how many bytes of audio the present connection has got, in all sessions: the Heard of the next session's Leg.
func (t *Tracker) Heard() int64 { panic("not written yet") }

// Duration returns how long so many bytes of the session's audio last, and Bytes how many bytes last so long. Both return 0 as long as the
// format is not known.
func (t *Tracker) Duration(n int64) time.Duration { panic("not written yet") }
func (t *Tracker) Bytes(d time.Duration) int64    { panic("not written yet") }

// Unanswered returns how many messages of the client wait for a reply of the present server, where each gets one (StallReplies).
func (t *Tracker) Unanswered() int { panic("not written yet") }

// Format returns the encoding, samples a second and channels of the session's audio, as far as they are known.
func (t *Tracker) Format() (e Encoding, rate, channels int) { panic("not written yet") }
