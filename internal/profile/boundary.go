package profile

import (
	"iter"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Boundary follows one connection to a server over all its sessions and tells where one ends and the next may begin. It is
// a state machine of values: it does no I/O, has no clock and calls nobody. Whoever owns the connection tells it what
// happens and does what the [Step] says; it is for one goroutine at a time. An idle connection's Boundary is a few words.
//
// The order of calls, with what may come in between:
//
//	New, Dialed                                   Frame and Feed of the greeting
//	(Ready) Begin                                 Frame and Feed of what Inspect names; Plausible
//	        [Replaced: ReplaceEnd]                Frame and Feed of everything from the server
//	        End, when the lease ends              Frame and Feed of everything from the server
//	(Ready) Begin ...
//
// Timer and Closed may come at any time.
//
// A connection is Ready only at a message boundary in both directions, and, once it has served a session that said
// anything, only after the profile's reset was seen to succeed. In any doubt it is Broken.
type Boundary struct {
	program  *program
	session  *session       // nil while there is nothing to remember
	greeting *savedGreeting // the server's greeting; nil for none

	// settings stands for what earlier sessions have left on the connection: see settings.go. For tagged connections it is
	// the set of the tags of the last session.
	settings uint64

	state    state
	flags    flags
	reason   Reason // why the connection must serve no other session
	inspect  [2]frame.Kinds
	restarts uint16 // of the settle window
}

// Direction is one way of a connection.
type Direction uint8

// The directions.
const (
	FromClient Direction = iota
	FromServer
)

// state is what the connection is doing.
type state uint8

const (
	greeting  state = iota // dialed; the server's greeting is awaited
	idle                   // waiting for a session
	opening                // a session has begun, its first message is awaited
	notReady               // the first message was sent, the server is not ready yet
	streaming              // messages pass both ways
	replacing              // the client's end message came; ReplaceEnd is awaited
	finishing              // the reset was sent, the client waits for its last answer
	resetting              // the session is over, the reset is to succeed
	settling               // it has; nothing more may come for a while
	broken                 // to be closed
)

// flags are what else is known of a connection.
type flags uint8

const (
	used    flags = 1 << iota // it has served a session that said something
	noReuse                   // it must serve no other session
	ended                     // the last that the client said is its end message
	asked                     // a keepalive message was not answered yet
	silent                    // the server has said nothing in this session yet
	replay                    // all that the client said is in the opening
)

// session is what has to be remembered of a session, or of a greeting.
type session struct {
	token    uint64
	messages [2]assembly

	taken        uint64 // whole messages of the client that were not passed on
	unanswered   uint64 // whole messages of the client that the server does not answer
	swallowed    uint64 // whole messages of the server that were none of the session's
	counted      uint64 // messages of the client that are answered like the reset
	acknowledged uint64 // such answers

	expected uint64 // what the server must say until the reset has succeeded: messages, acknowledgements or tasks
	answers  uint64 // how much of it is for the client (finishing)

	opening Opening
	tasks   tasks
}

// Opening is a client's first message: what another connection's server has to be told when this one's cannot serve it.
type Opening struct {
	Opcode  frame.Opcode // 0 when the client has said nothing yet
	Payload []byte
}

// savedGreeting is the greeting: whole messages, with their kinds.
type savedGreeting struct {
	opcodes  []frame.Opcode
	payloads [][]byte
	size     int
}

// New returns the Boundary of a connection that is being dialed with the profile.
func New(p *Profile) Boundary { return Boundary{program: p.program, state: greeting} }

// Inspect returns the kinds of messages in a direction that are to be presented at present. It is asked when a message
// begins, costs nothing, and changes only by other calls.
func (b *Boundary) Inspect(d Direction) frame.Kinds { return b.inspect[d] }

// Token returns the number that stands for $token in what is to be sent.
func (b *Boundary) Token() uint64 {
	if b.session == nil {
		return 0
	}
	return b.session.token
}

// Dialed begins the connection's life, once the opening handshake is done.
func (b *Boundary) Dialed() Step {
	s := Step{Send: b.program.setup}
	if b.program.greets {
		b.state = greeting
		b.updateInspect()
		s.Timer = b.program.greetingTime
		return s
	}
	return b.becomeIdle(s)
}

// Greeting returns the messages of the server's greeting, to be sent to the client at the start of each session. With a
// one-shot profile that was inspected while it was idle, what the server has said since is among them.
func (b *Boundary) Greeting() iter.Seq2[frame.Opcode, []byte] {
	return func(yield func(frame.Opcode, []byte) bool) {
		if b.greeting == nil {
			return
		}
		for i, op := range b.greeting.opcodes {
			if !yield(op, b.greeting.payloads[i]) {
				return
			}
		}
	}
}

// Begin begins a session on a Ready connection. The token is a number that nobody can guess, another for each session.
func (b *Boundary) Begin(token uint64) (s Step) {
	if b.state != idle { // the caller is wrong
		return b.breaks(Step{Close: frame.InternalError}, b.reason)
	}
	former := b.session
	b.session = &session{token: token}
	if former != nil { // a message is under way: the answer to a keepalive message, or, for one-shot, something for the client
		m := &b.session.messages[FromServer]
		*m = former.messages[FromServer]
		if m.fate == dropping && b.flags&asked == 0 {
			m.fate = holding
		}
	}
	b.flags = b.flags&(used|asked) | silent | replay
	b.state = streaming
	if b.program.opens() {
		b.state = opening
	}
	if b.flags&asked != 0 { // what comes first is the answer to a keepalive message
		s.Client, s.Timer = Pause, b.program.timeout
	} else if b.program.aliveEvery > 0 {
		s.Timer = StopTimer
	}
	b.updateInspect()
	return s
}

// opens reports whether a session's first message needs to be known.
func (p *program) opens() bool {
	return p.sticks() || p.refuses() || p.readies || p.reuse == Tagged
}

// refuses reports whether a server may refuse a session after the handshake.
func (p *program) refuses() bool { return p.busys || p.busyClose != nil }

// listens reports whether what a one-shot connection's server says before the session is looked at.
func (p *program) listens() bool { return p.busys || p.alives }

// sticks reports whether sessions leave settings on the connection.
func (p *program) sticks() bool {
	return (p.fromClient.can[frame.Text]|p.fromClient.can[frame.Binary])&isSticky != 0
}

// Opening returns what the client has said so far, with Elsewhere. It is valid until End.
func (b *Boundary) Opening() Opening {
	if b.session == nil {
		return Opening{}
	}
	return b.session.opening
}

// Plausible reports whether the server keeps to the profile as far as counts can tell. What it sends beyond that belongs to
// nobody, and must not reach a client; the connection serves no other session then.
func (b *Boundary) Plausible(t Traffic) bool {
	if b.program.reuse != Lockstep || b.session == nil || b.state > replacing { // then all is counted as it comes
		return true
	}
	may := begun(t.Sent, t.SendingMessage) + b.session.swallowed
	if b.flags&asked != 0 {
		may++
	}
	if begun(t.Received, t.ReceivingMessage)+b.session.taken+b.session.unanswered > may {
		b.forbidReuse(Unsolicited)
		return false
	}
	return true
}

// Owed reports whether the server may have something left to say to the session.
func (b *Boundary) Owed(t Traffic) bool {
	switch {
	case b.program.reuse == OneShot:
		return true
	case b.session == nil:
		return false
	case b.program.reuse == Lockstep:
		return t.ReceivingMessage || t.Received+b.session.taken+b.session.unanswered < t.Sent+b.session.swallowed
	case b.program.reuse == Tagged:
		return b.session.tasks.open() > 0
	}
	return b.session.counted > b.session.acknowledged
}

// updateInspect works out what is to be presented from now on.
func (b *Boundary) updateInspect() {
	p := b.program
	b.inspect = [2]frame.Kinds{}
	switch b.state {
	case idle:
		if p.reuse != OneShot || p.listens() {
			b.inspect[FromServer] = allMessages
		}
	case opening, notReady, streaming, replacing:
		b.inspect = [2]frame.Kinds{p.fromClient.kinds(^class(0)), p.streamed()}
		if b.state != streaming || b.flags&ended != 0 || b.flags&(silent|replay) == silent|replay && p.refuses() {
			b.inspect[FromClient] = allMessages
		}
		if b.flags&silent != 0 && (p.refuses() || p.readies) {
			b.inspect[FromServer] = allMessages
		}
		if b.flags&asked != 0 { // the client is to wait, and what comes first is not for it
			b.inspect = [2]frame.Kinds{allMessages, allMessages}
		}
	case finishing:
		b.inspect = [2]frame.Kinds{allMessages, allMessages}
	default:
		b.inspect[FromServer] = allMessages
	}
}

// streamed returns the kinds of the server's messages that are looked at all through a session.
func (p *program) streamed() frame.Kinds {
	switch {
	case p.reuse == Tagged:
		return allMessages
	case (p.reuse == Fenced || p.reuse == Quiet) && !p.tokens:
		return p.fromServer.kinds(isUntil)
	}
	return 0
}

// forbidReuse notes that the connection must serve no other session.
func (b *Boundary) forbidReuse(why Reason) {
	if b.flags&noReuse == 0 {
		b.flags |= noReuse
		b.reason = why
	}
}

// breaks ends the connection's life.
func (b *Boundary) breaks(s Step, why Reason) Step {
	b.state, b.reason = broken, why
	b.forget()
	b.updateInspect()
	s.Then, s.Reason, s.Timer = Broken, why, StopTimer
	return s
}

// becomeIdle makes the connection wait for a session.
func (b *Boundary) becomeIdle(s Step) Step {
	b.state = idle
	if s := b.session; b.flags&asked != 0 && s != nil && s.messages[FromServer].fate.looked() { // its answer is under way
		b.session = &session{}
		b.session.messages[FromServer] = s.messages[FromServer]
		s.messages[FromClient].free()
	} else {
		b.forget()
	}
	b.flags &^= noReuse | ended | silent | replay
	b.updateInspect()
	s.Then = Ready
	s.Timer = StopTimer
	if b.program.aliveEvery > 0 {
		s.Timer = b.program.aliveEvery
	}
	return s
}

// forget drops what was remembered of a session.
func (b *Boundary) forget() {
	if b.session != nil {
		b.session.messages[FromClient].free()
		b.session.messages[FromServer].free()
		b.session = nil
	}
}

// remembered returns the session's part, also where there is none yet.
func (b *Boundary) remembered() *session {
	if b.session == nil {
		b.session = new(session)
	}
	return b.session
}
