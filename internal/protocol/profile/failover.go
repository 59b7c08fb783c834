package profile

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Failover is what a profile says about sessions that another server continues when theirs dies, hangs or is drained. It is immutable.
// docs/reference/write-a-profile.md explains every key; [Tracker] acts on it.
type Failover struct {
	Verdict Verdict
	// Why says what a client sees (Visible) or why sessions are not taken over (Never); empty with Full.
	Why string

	audio     audioSpec
	configure []configureSpec
	forget    []matcher // messages of the client that no other server gets: keepalives, forced ends of an utterance
	answered  []answerSpec
	final     []matcher // final results, where answered does not define them
	partial   []matcher // results that are revised later: hidden while another server catches up
	heartbeat []matcher // messages that a server sends by its clock, whether or not it works: no sign of life
	shift     []timeSpec
	renumber  []numberSpec
	hide      []hideSpec
	prepend   prependSpec
	lastWord  lastWordSpec
	unless    []parameterValue // sessions whose client's URL has one of these are not taken over
	only      []parameterValue // if there are any, sessions whose client's URL has none of these are not taken over

	// Pace is how many times faster than real time a replay may be, from 1; 0 for no limit.
	Pace float64
	// Stall says how to recognize that a server has stopped working.
	Stall StallSign
	// Continues reports that the times in results continue from one session of a connection to the next.
	Continues bool
	// Force tells that the profile has the key force, which earlier versions read, but none used.
	Force bool

	faulty bool // what the profile itself says about it could not be read
}

// unknownWhy is why sessions of a profile that says nothing about failover are not taken over.
const unknownWhy = "the profile does not say how"

// defaultPace is how many times faster than real time a replay is, unless the profile says otherwise.
const defaultPace = 4

// defaultLastWord are the close codes after which no other server continues the session, unless the profile says otherwise: the client has broken the
// protocol (RFC 6455, section 7.4.1), or the server's application refuses it.
var defaultLastWord = []codeRange{{1002, 1003}, {1007, 1009}, {3000, 4999}}

// newFailover returns what holds for a profile that says nothing.
func newFailover() Failover {
	return Failover{
		Why: unknownWhy, Pace: defaultPace, lastWord: lastWordSpec{close: defaultLastWord},
		audio: audioSpec{channels: choiceSpec{value: "1"}},
	}
}

// Failover returns what the profile says about taking over sessions. It is never nil: by default, the verdict is [Never].
func (p *Profile) Failover() *Failover { return &p.spec.failover }

// AnswersAll reports whether a server replies to every message of its clients, so that it owes something as soon as one is whole.
func (p *Profile) AnswersAll() bool {
	return p.spec.failover.Stall == StallReplies && len(p.spec.unanswered) == 0 && len(p.spec.failover.configure) == 0
}

// TellsAudio reports whether the profile says which messages of a client are audio.
func (f *Failover) TellsAudio() bool { return len(f.audio.messages) > 0 }

// AudioKinds returns the kinds of messages that are audio, whatever is in them; 0 if it depends on what is in them.
func (f *Failover) AudioKinds() (kinds frame.Kinds) {
	if f.audio.base64 != nil || f.audio.floats != "" {
		return 0
	}
	for _, m := range f.audio.messages {
		if m.opcode == 0 {
			return 0
		}
		kinds |= 1 << m.opcode
	}
	return kinds
}

// TellsLag reports whether the server's messages tell how late it answers the audio that it gets: by a reply to each message, or by how far final
// results go.
func (f *Failover) TellsLag() bool {
	return f.Stall == StallReplies || f.Stall != StallAsked && slices.ContainsFunc(f.answered, func(a answerSpec) bool { return a.measures() })
}

// measures reports whether such a message tells up to where audio is answered.
func (a *answerSpec) measures() bool { return a.by != MeansUtterance && a.by != MeansUnknown }

// Verdict says how well a session can be taken over in its middle.
type Verdict uint8

const (
	// Never: it cannot.
	Never Verdict = iota
	// Visible: the session continues, but the client can tell.
	Visible
	// Full: no final result is lost or repeated, and times and numbers continue.
	Full
)

var verdictNames = []string{"never", "visible", "full"}

// String returns the word for it in YAML.
func (v Verdict) String() string { return verdictNames[v] }

// StallSign says how to distinguish a server that has stopped working from one that has nothing to say.
type StallSign uint8

const (
	// StallNone: it cannot.
	StallNone StallSign = iota
	// StallReplies: each message gets a reply, so a reply is missing.
	StallReplies
	// StallCadence: results come all the time while audio comes, in silence too.
	StallCadence
	// StallSpeech: results come while there is speech. In silence nothing may come.
	StallSpeech
	// StallAsked: results come once the client has asked for them, by a marker of Answered or its end message, until that is answered.
	StallAsked
)

var stallNames = []string{"none", "replies", "cadence", "speech", "asked"}

// ByMessage reports whether the server owes something by what the client has said, whatever audio comes.
func (s StallSign) ByMessage() bool { return s == StallReplies || s == StallAsked }

// String returns the word for it in YAML.
func (s StallSign) String() string { return stallNames[s] }

// Encoding is how audio is encoded.
type Encoding uint8

// The encodings. All but EncodingOther have a fixed number of bytes for each sample, so that bytes are time.
const (
	EncodingOther Encoding = iota // compressed or in a container: its sessions cannot be taken over
	S16LE
	F32LE
	U8
	MuLaw
	ALaw
)

var encodingNames = []string{"other", "s16le", "f32le", "u8", "mulaw", "alaw"}

// encodingOf returns the encoding with a name; EncodingOther if there is none.
func encodingOf(name string) Encoding { return Encoding(max(0, slices.Index(encodingNames, name))) }

// String returns the word for it in YAML.
func (e Encoding) String() string { return encodingNames[e] }

// UsualEncoding returns the encoding of clients' audio unless they name another: EncodingOther if it is compressed or in a container.
func (f *Failover) UsualEncoding() Encoding { return encodingOf(f.audio.encoding.value) }

// sampleSize is the size of a sample in bytes; 0 for EncodingOther.
func (e Encoding) SampleSize() int { return [...]int{0, 2, 4, 1, 1, 1}[e] }

// LeastAudio returns how much audio is at least in a message that a server takes; 0 for any.
func (f *Failover) LeastAudio() time.Duration { return f.audio.least }

// audioSpec says which messages of the client are audio, and what their bytes mean.
type audioSpec struct {
	messages []matcher
	base64   jsonPath // to the audio in a text message; nil if the payload is the audio
	floats   string   // key of an array of 32-bit floats in a MessagePack map; empty if there is none

	encoding, rate, channels choiceSpec

	least time.Duration // the shortest message with audio that a server takes; 0 for any
}

// choiceSpec is a property of the audio: fixed, or named by the client.
//
// A text with parameters (within) begins with a type, up to the first ; or comma; parameters follow, separated in the same way. Blanks around
// them do not count, nor does a type in brackets before a value, such as rate=(int)16000.
type choiceSpec struct {
	value   string            // unless the client names another
	query   string            // parameter of the client's URL that names it; empty for none
	message jsonPath          // path to its name in a text message of the client; nil for none
	names   map[string]string // the client's names for values; others stand for themselves, or for EncodingOther
	within  string            // the name is a text such as "audio/l16;rate=16000", whose parameter (or "type") this names; empty for the whole
}

// Resend says how configuration messages of one kind are sent again.
type Resend uint8

const (
	// ResendLast: the last one.
	ResendLast Resend = iota
	// ResendAll: all, in order.
	ResendAll
	// ResendMerged: one JSON object with the latest value of each member, objects in it merged the same way.
	ResendMerged
)

var resendNames = []string{"last", "all", "merged"}

// configureSpec says which messages of the client configure the server, and how they are sent again.
type configureSpec struct {
	messages []matcher
	resend   Resend
	except   []matcher // messages that match, but are no configuration: they keep their place among the others
}

// hideSpec says which messages of another server the client has had from the first one, such as greetings.
type hideSpec struct {
	messages []matcher
	most     int // how many of one server are hidden at most; 0 for all
}

// TimeUnit is the unit of times in messages.
type TimeUnit uint8

// The units.
const (
	UnitSeconds      TimeUnit = iota
	UnitMilliseconds          // "ms"
	UnitClock                 // "h:mm:ss.cc": hours, minutes and seconds in a text
)

var unitNames = []string{"s", "ms", "clock"}

// Means says how a message of the server finally answers audio.
type Means uint8

const (
	// MeansTime: up to the time in it, or the sum of several, less a margin.
	MeansTime Means = iota
	// MeansCount: it is the reply to the i-th message, and answers that and all before it.
	MeansCount
	// MeansUtterance: all audio up to somewhere before the message was sent: what had been sent when it came, less a margin.
	MeansUtterance
	// MeansNext: what is before the time in the next message.
	MeansNext
	// MeansMarker: the i-th one answers all messages up to the client's i-th marker.
	MeansMarker
	// MeansUnknown: that is not known. The session cannot be taken over after it.
	MeansUnknown
)

var meansNames = []string{"time", "count", "utterance", "next", "marker", "unknown"}

// answerSpec says which messages of the server finally answer audio, and up to where. Of several that match a message, the first counts
// (of those by time, the first whose time is present).
type answerSpec struct {
	messages []matcher
	by       Means
	times    []jsonPath // whose values are added; a path through [] takes the last item, or the greatest with most
	where    *condition // of the items of the last [], only those that meet it count; nil for all. The path begins at the item.
	most     bool
	unit     TimeUnit
	margin   time.Duration // with MeansTime and MeansUtterance
	marker   []matcher     // with MeansMarker: the client's messages, each of which gets such an answer, in order
	// With MeansMarker, if answers name what they answer, in any order:
	accepted []matcher // the server's receipts for markers, in the order of these
	refused  []matcher // or its refusals, which are all that the client gets
	id       jsonPath  // to the name that a receipt gives and an answer repeats; nil for none
}

// timeSpec is a path to times that count from the beginning of the server's audio. [] in a path stands for all items.
type timeSpec struct {
	at   place
	path jsonPath
	unit TimeUnit
	when []matcher // only in such messages; none for all
}

// numberSpec is a path to numbers that a server counts up with each final result.
type numberSpec struct {
	at     place
	path   jsonPath
	first  int64     // the number that a server begins with
	unless []matcher // final results that do not count, such as empty ones
}

// lastWordSpec says how a server ends a session permanently, so that no other server continues it. A close with 1000 after the client's end message does
// so, too.
type lastWordSpec struct {
	close    []codeRange // its close codes
	messages []matcher   // messages that tell the client that the session has failed: whatever end follows is the last
}

// parameterValue is a parameter of a client's URL.
type parameterValue struct{ name, value string }

// prependSpec says which list of a server's messages has the whole state, so that what the former server said must stay at its beginning.
type prependSpec struct {
	path  jsonPath   // to the list, or to a text; nil for none
	final *condition // what an item must meet to stay; nil for every item. The path begins at the item.
	most  int        // items that the client gets at most; 0 for no limit
}
