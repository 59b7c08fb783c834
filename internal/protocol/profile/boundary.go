package profile

import (
	"fmt"
	"iter"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Boundary follows one connection to a server through all its sessions and decides where one ends and the next may begin. It is
// a state machine made of values: it does no I/O, has no clock and calls nothing. The owner of the connection reports events to it
// and does what the returned [Step] says. One goroutine at a time may use it. While the connection is idle, its Boundary takes a
// few words of memory, and the tags of tasks: see [maxTags].
//
// The order of calls, and the calls that may come in between:
//
//	New, Dialed                                   Frame and Feed of the greeting
//	(Ready) Begin                                 Frame and Feed of what Inspect names; Plausible
//	        [Replaced: ReplaceEnd]                Frame and Feed of everything from the server
//	        End, when the lease ends              Frame and Feed of everything from the server
//	(Ready) Begin ...
//
// Timer and Closed may come at any time.
//
// A connection is Ready only at a message boundary in both directions. Once a session has sent anything on it, it is Ready only
// after the Boundary has seen the profile's reset succeed. If in doubt, it is Broken.
type Boundary struct {
	program *program
	session *session // nil if there is nothing to remember
	memory  *memory  // nil for nothing

	// settings stands for the settings that earlier sessions left on the connection: see settings.go.
	settings uint64

	state    state
	flags    flags
	reason   Reason // why the connection must serve no other session
	inspect  [2]frame.Kinds
	restarts uint16 // how often the settle window has restarted
}

// Direction is one of a connection's two directions.
type Direction uint8

// The directions.
const (
	FromClient Direction = iota
	FromServer
)

// state says what the connection is doing. The order matters: code compares states.
type state uint8

const (
	greeting  state = iota // dialed; waits for the server's greeting
	idle                   // waits for a session
	opening                // a session has begun; waits for its first message
	notReady               // the first message was sent; waits for the server to be ready
	streaming              // messages pass both ways
	replacing              // the client's end message came; waits for ReplaceEnd
	finishing              // the reset was sent; the client waits for its last answer
	resetting              // the session has ended; waits for the reset to succeed
	settling               // the reset has succeeded; waits for a time without messages
	leaving                // the session has ended, and the server was notified; waits for its last message or its close
	broken                 // must be closed
)

// flags are further facts about a connection.
type flags uint8

const (
	used             flags = 1 << iota // a session has sent something on it
	noReuse                            // it must not serve another session
	ended                              // the client's latest message is its end message
	keepalivePending                   // the server has not answered a keepalive message yet
	silent                             // the server has sent nothing in this session yet
	openingKnown                       // the opening holds all that the client has sent
	complete                           // the server has sent its last message after the client's end message
)

// session is what the Boundary remembers of a session, or of a greeting while it arrives.
type session struct {
	token    uint64
	messages [2]assembly

	withheld     uint64 // whole messages from the client that were not passed on
	texts        uint64 // whole texts from the client, if the profile counts its binary messages
	unanswered   uint64 // whole messages from the client that the server does not answer
	notForClient uint64 // whole messages from the server that do not belong to the session
	counted      uint64 // messages from the client whose answer looks like the acknowledgement of the reset
	acknowledged uint64 // answers of this kind

	expected uint64 // what must still come from the server before the reset has succeeded: messages, acknowledgements or tasks
	answers  uint32 // how many of them are for the client (in finishing), or came before the reset's second (in resetting)

	keepalives uint32 // of the session that the server has not answered, if it does

	opening Opening
	tasks   *tasks   // nil unless the client has begun one
	formats *Formats // that the client's first message may change; nil for none
	guide   Guide    // asked about the client's first message; nil for none
}

// Opening is a client's first message. If this connection's server cannot serve the client, the proxy sends it to another.
type Opening struct {
	Opcode  frame.Opcode // 0 if the client has sent nothing yet
	Payload []byte
}

// memory is what few connections have to remember between sessions.
type memory struct {
	greeting savedGreeting
	tags     tags // of earlier sessions' tasks, on a tagged connection
}

// savedGreeting holds the server's greeting: whole messages and their opcodes.
type savedGreeting struct {
	opcodes  []frame.Opcode
	payloads [][]byte
	size     int
}

// New returns the Boundary of a connection that is being dialed with the profile.
func New(p *Profile) Boundary { return Boundary{program: p.program, state: greeting} }

// Inspect returns the kinds of messages in a direction that the caller must present now. The caller asks when a message begins.
// Only other calls change the result.
func (b *Boundary) Inspect(d Direction) frame.Kinds { return b.inspect[d] }

// Token returns the number that replaces $token in the messages of [Step.Send]. It is the one that Begin got, or 0 without a session.
func (b *Boundary) Token() uint64 {
	if b.session == nil {
		return 0
	}
	return b.session.token
}

// Dialed reports that the opening handshake has succeeded. The caller calls it once, before it presents anything.
func (b *Boundary) Dialed() Step {
	s := Step{Send: b.program.setup}
	if b.program.hasGreeting {
		b.state = greeting
		b.updateInspect()
		s.Timer = b.program.greetingTime
		return s
	}
	return b.becomeIdle(s)
}

// Greeting returns the messages of the server's greeting, which the caller sends to the client at the start of each session. If the
// profile is one-shot and the idle connection was inspected, they include what the server sent while it was idle.
func (b *Boundary) Greeting() iter.Seq2[frame.Opcode, []byte] {
	return func(yield func(frame.Opcode, []byte) bool) {
		if b.memory == nil {
			return
		}
		for i, op := range b.memory.greeting.opcodes {
			if !yield(op, b.memory.greeting.payloads[i]) {
				return
			}
		}
	}
}

// Begin begins a session on a Ready connection. The token is an unguessable number, a new one for each session.
func (b *Boundary) Begin(token uint64) (s Step) {
	if b.state != idle { // a bug in the caller
		return b.markBroken(Step{Close: frame.InternalError}, b.reason)
	}
	former := b.session
	b.session = &session{token: token}
	if former != nil { // part of a message has come: of the answer to a keepalive message or, if one-shot, of one for the client
		m := &b.session.messages[FromServer]
		*m = former.messages[FromServer]
		if m.fate == dropping && b.flags&keepalivePending == 0 {
			m.fate = holding
		}
	}
	b.flags = b.flags&(used|keepalivePending) | silent | openingKnown
	b.state = streaming
	if b.program.inspectsOpening() {
		b.state = opening
	}
	if b.flags&keepalivePending != 0 { // the server's next message answers a keepalive message
		s.Client, s.Timer = Pause, b.program.timeout
	} else if b.program.aliveEvery > 0 {
		s.Timer = StopTimer
	}
	b.updateInspect()
	return s
}

// ReadFormats has the session's first message change the formats of its audio, if the profile knows where it names them. The caller calls it right
// after Begin, and keeps f until the session has ended.
func (b *Boundary) ReadFormats(f *Formats) {
	if b.program.readsFormat() && b.session != nil {
		b.session.formats = f
	}
}

// readsFormat reports whether a client's first message may name the format of audio.
func (p *program) readsFormat() bool {
	return p.tracker.heard.choices != nil || p.tracker.spoken.choices != nil
}

// inspectsOpening reports whether the Boundary must read a session's first message.
func (p *program) inspectsOpening() bool {
	return p.hasSticky() || p.mayRefuse() || p.hasReady || p.reuse == Tagged || p.readsFormat() || p.asksGuide()
}

// mayRefuse reports whether the server may refuse a session after the handshake.
func (p *program) mayRefuse() bool { return p.hasBusy || p.busyClose != nil }

// inspectsIdle reports whether the Boundary reads what the server of a one-shot connection sends before the session.
func (p *program) inspectsIdle() bool { return p.hasBusy || p.hasAlive }

// hasSticky reports whether sessions can leave settings on the connection.
func (p *program) hasSticky() bool {
	return (p.fromClient.can[frame.Text]|p.fromClient.can[frame.Binary])&isSticky != 0
}

// Opening returns what the client has sent so far. The caller asks after a Step with Elsewhere; the result is valid until End.
func (b *Boundary) Opening() Opening {
	if b.session == nil {
		return Opening{}
	}
	return b.session.opening
}

// Plausible reports whether the server has sent no more messages than the profile allows. Further messages belong to no session and
// must not reach a client. If it returns false, the connection serves no other session.
func (b *Boundary) Plausible(t Traffic) bool {
	if b.program.reuse != Lockstep || b.session == nil || b.state > replacing { // the Boundary judges each message as it comes
		return true
	}
	may := begun(t.Sent, t.SendingMessage) + b.session.notForClient
	if b.flags&keepalivePending != 0 {
		may++
	}
	may += uint64(b.session.keepalives)
	if begun(t.Received, t.ReceivingMessage)+b.session.withheld+b.session.unanswered > may {
		b.forbidReuse(Unsolicited)
		return false
	}
	return true
}

// Owed reports whether the server may still have something to send to the session.
func (b *Boundary) Owed(t Traffic) bool {
	switch {
	case b.program.reuse == OneShot:
		return true
	case b.session == nil:
		return false
	case b.program.reuse == Lockstep:
		return t.ReceivingMessage || t.Received+b.session.withheld+b.session.unanswered < t.Sent+b.session.notForClient
	case b.program.reuse == Tagged:
		return b.session.tasks.open() > 0
	}
	return b.session.counted > b.session.acknowledged
}

// updateInspect sets the kinds of messages that the caller must present from now on.
func (b *Boundary) updateInspect() {
	p := b.program
	b.inspect = [2]frame.Kinds{}
	switch b.state {
	case idle:
		if p.reuse != OneShot || p.inspectsIdle() {
			b.inspect[FromServer] = allMessages
		}
	case opening, notReady, streaming, replacing:
		b.inspect = [2]frame.Kinds{p.fromClient.kinds(^class(0)), p.sessionKinds()}
		if p.leave.countsBinary {
			b.inspect[FromClient] |= 1 << frame.Text
		}
		if b.flags&(ended|complete) == ended {
			b.inspect[FromServer] |= p.fromServer.kinds(isLast)
		}
		if b.state != streaming || b.flags&ended != 0 || b.flags&(silent|openingKnown) == silent|openingKnown && p.mayRefuse() {
			b.inspect[FromClient] = allMessages
		}
		if b.flags&silent != 0 && (p.mayRefuse() || p.hasReady) {
			b.inspect[FromServer] = allMessages
		}
		if b.awaitsAlive() {
			b.inspect[FromServer] = allMessages
		} else if b.session.keepalives > 0 {
			b.inspect[FromServer] |= p.fromServer.kinds(isAlive)
		}
		if b.flags&keepalivePending != 0 { // the client waits, and the server's next message is not for it
			b.inspect = [2]frame.Kinds{allMessages, allMessages}
		}
	case finishing:
		b.inspect = [2]frame.Kinds{allMessages, allMessages}
	default:
		b.inspect[FromServer] = allMessages
	}
}

// sessionKinds returns the kinds of the server's messages that are inspected throughout a session.
func (p *program) sessionKinds() frame.Kinds {
	switch {
	case p.reuse == Tagged:
		return allMessages
	case (p.reuse == Fenced || p.reuse == Quiet) && !p.tokens:
		return p.fromServer.kinds(isUntil)
	}
	return 0
}

// forbidReuse notes that the connection must not serve another session. The first reason stays.
func (b *Boundary) forbidReuse(why Reason) {
	if b.flags&noReuse == 0 {
		b.flags |= noReuse
		b.reason = why
	}
}

// markBroken makes the connection Broken and adds this to the Step.
func (b *Boundary) markBroken(s Step, why Reason) Step {
	b.state, b.reason = broken, why
	b.forget()
	b.updateInspect()
	s.Then, s.Reason, s.Timer = Broken, why, StopTimer
	return s
}

// becomeIdle makes the connection Ready for the next session and adds this to the Step.
func (b *Boundary) becomeIdle(s Step) Step {
	b.state = idle
	if s := b.session; b.flags&keepalivePending != 0 && s != nil && s.messages[FromServer].fate.inspected() { // part of its answer has come
		b.session = &session{}
		b.session.messages[FromServer] = s.messages[FromServer]
		s.messages[FromClient].free()
	} else {
		b.forget()
	}
	b.flags &^= noReuse | ended | silent | openingKnown | complete
	b.updateInspect()
	s.Then = Ready
	s.Timer = StopTimer
	if b.program.aliveEvery > 0 {
		s.Timer = b.program.aliveEvery
	}
	return s
}

// forget drops what the Boundary remembers of a session, and frees its buffers.
func (b *Boundary) forget() {
	if b.session != nil {
		b.session.messages[FromClient].free()
		b.session.messages[FromServer].free()
		b.session = nil
	}
}

// ensureSession returns the session, after creating it if there is none.
func (b *Boundary) ensureSession() *session {
	if b.session == nil {
		b.session = new(session)
	}
	return b.session
}

// ensureMemory returns what the connection remembers between sessions, after creating it if it remembers nothing yet.
func (b *Boundary) ensureMemory() *memory {
	if b.memory == nil {
		b.memory = new(memory)
	}
	return b.memory
}

// Phase says in words what the connection waits for, as the profile sees it.
func (b *Boundary) Phase() string {
	phase := [...]string{
		greeting: "waits for the server's greeting", idle: "idle", opening: "waits for the client's first message",
		notReady: "waits for the server to be ready", streaming: "passes messages on", replacing: "resets the server in place of the client's end",
		finishing: "waits for the client's last answer", resetting: "waits for the reset to succeed", settling: "waits for the server to stay quiet",
		leaving: "waits for the server's last word", broken: "must be closed",
	}[b.state]
	if b.reason != NoReason {
		phase += ": " + b.reason.String()
	}
	return phase
}

// Awaited says in words what must still come from the server before the reset has succeeded; empty when no reset is under way, or when
// nothing must come.
func (b *Boundary) Awaited() string {
	if b.state == leaving {
		if len(b.program.leave.until) == 0 {
			return "the server's close must come"
		}
		return "the server's last message must come"
	}
	if b.session == nil || b.session.expected == 0 || b.state != finishing && b.state != resetting {
		return ""
	}
	what := "acknowledgement"
	switch b.program.reuse {
	case Lockstep:
		what = "message"
	case Tagged:
		what = "end of a task"
	}
	text := "1 " + what + " must come"
	if n := b.session.expected; n != 1 {
		text = fmt.Sprintf("%d %s must come", n, map[string]string{
			"acknowledgement": "acknowledgements", "message": "messages", "end of a task": "ends of tasks",
		}[what])
	}
	if b.state == finishing {
		text += fmt.Sprintf(", the first %d for the client", b.session.answers)
	}
	return text
}

// Traffic counts the messages that have passed over a connection since its session began. Messages that the proxy itself sent and
// the greeting, which the proxy sends to the client, do not count.
type Traffic struct {
	Sent     uint64 // whole messages from the client, including those that the [Boundary] dropped, but not what it left unread ([Keep])
	Received uint64 // whole messages from the server
	// SendingMessage and ReceivingMessage report whether another message has begun in that direction and not ended.
	SendingMessage, ReceivingMessage bool
}

// begun returns how many messages have begun: the whole ones, and perhaps one more.
func begun(whole uint64, another bool) uint64 {
	if another {
		whole++
	}
	return whole
}
