package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// State is whether another server could continue a session, and how far the present one has come with what is kept for that.
// docs/architecture.md draws the states and the transitions between them.
type State uint8

// The states.
const (
	// Off: nothing is kept, because the service or the profile rules it out.
	Off State = iota
	// Live: the present server gets what the client sends, and what is not answered is kept for another one.
	Live
	// Left: the session has left a server that failed, or that it was to leave, and needs another.
	Left
	// TurnedAway: a server would not serve the session, which needs another.
	TurnedAway
	// Replaying: the present server gets what the one before it had got.
	Replaying
	// CatchingUp: the present server has got that, and gets what the client has sent meanwhile.
	CatchingUp
	// LastReplay: as Replaying, but no other server could continue the session after this one.
	LastReplay
	// Draining: no other server could continue the session. The present one gets what is kept before anything else.
	Draining
	// Streaming: no other server could continue the session, and nothing is kept, until all that the client has sent is answered.
	Streaming
	// GivenUp: as Streaming, for good.
	GivenUp

	states = iota
)

func (s State) String() string {
	return [states]string{
		"off", "live", "left", "turnedAway", "replaying", "catchingUp", "lastReplay", "draining", "streaming", "givenUp",
	}[s]
}

// transitions are the allowed ones.
var transitions = [states][]State{
	Off:        {},
	Live:       {Left, TurnedAway, Draining},
	Left:       {Replaying},
	TurnedAway: {Replaying},
	Replaying:  {CatchingUp, LastReplay, Left, TurnedAway},
	CatchingUp: {Live, Draining, Left, TurnedAway},
	LastReplay: {Draining},
	Draining:   {Streaming, GivenUp},
	Streaming:  {Live, GivenUp},
	GivenUp:    {},
}

// rules say what holds in a state.
type rules struct {
	recoverable bool // another server could continue the session
	served      bool // a server that may be left serves it
	behind      bool // the present server gets what is kept
	streams     bool // nothing is kept: the client's messages go to the server as they come
}

var rulesOf = [states]rules{
	Off:        {streams: true},
	Live:       {recoverable: true, served: true},
	Left:       {recoverable: true},
	TurnedAway: {recoverable: true},
	Replaying:  {recoverable: true, served: true, behind: true},
	CatchingUp: {recoverable: true, served: true, behind: true},
	LastReplay: {behind: true},
	Draining:   {behind: true},
	Streaming:  {streams: true},
	GivenUp:    {streams: true},
}

// Loss is why a session is no longer recoverable.
type Loss struct {
	Reason  meter.Unrecoverable
	Why     string
	ForGood bool // it will not be recoverable again
}

// Kind is what happens to a session.
type Kind uint8

// The kinds of events. Those from MoveOrdered on are about a pending move.
const (
	// ServerFailed: the present server cannot continue the session, or must not.
	ServerFailed Kind = iota
	// ServerRefused: the present server would not serve the session, and another one may. Nothing that it said has reached the client.
	ServerRefused
	// LegBegan: a server begins to serve the session.
	LegBegan
	// Progressed: the present server may have got more of what is kept.
	Progressed
	// Delivered: the client got a message from the present server.
	Delivered
	// KeepingFailed: what the client sends, or has sent, cannot be kept, for the reason in Loss.
	KeepingFailed
	// Answered: something was answered for good.
	Answered
	// SearchFailed: there is no other server.
	SearchFailed
	// EndDecided: the session's end is decided.
	EndDecided
	// Ended: the session is over.
	Ended
	// MoveOrdered: the session is to move to another server, as Move says.
	MoveOrdered
	// MoveChecked: a connection was found for the pending move, or its time has come.
	MoveChecked
	// MoveWithdrawn: the order was taken back.
	MoveWithdrawn
	// MoveUnplaced: no connection was found for the pending move, as Why says.
	MoveUnplaced
)

// Event is something that happens to a session, with what its consequences depend on.
type Event struct {
	Kind Kind
	Now  loop.Instant

	// With ServerFailed.
	Cause      meter.Cause
	Code       frame.CloseCode
	LastWord   bool // the server has said what it says at the end of a session
	SameServer bool // it is the server that the session left last
	Sent       bool // it has got something of what the client said
	Spared     bool // whether it is to blame is known only once another server has, or has not, continued the session

	// With everything that may make the session leave its server.
	Over     bool             // the client has closed, or the session's end is decided
	Answered profile.Position // up to where the client's audio is answered for good

	// What is kept.
	First, Next int64 // numbers of the first message that is kept, and of the next that the client sends
	Configured  bool  // the present server has got the configuration that precedes it

	Loss Loss // with KeepingFailed

	// With Answered.
	Settled  bool             // nothing is under way in either direction, and what the client says could be kept
	Received profile.Position // of the client's audio

	// With the events about a pending move, Answered and Progressed.
	Move      PendingMove // with MoveOrdered
	Connected bool        // there is a connection for the pending move
	Arrived   bool        // the present server is one that the pending move may go to

	// Why is set by Handle if the session stays or a move is refused, and by the caller with MoveUnplaced.
	Why string
}

// Action is something that a session has to do because of an event.
type Action uint8

// The actions.
const (
	Blame          Action = iota // count for the server that was left that it has ended the session
	BlameAlike                   // count that, and that the present server has ended the session alike
	EndAlike                     // the present server ends the session as the one before it did
	CountMoved                   // count and record that another server continues the session
	CountNotMoved                // count for the server that was left that no other continues the session
	CountStayed                  // count for the present server that the session must not leave it
	Redirect                     // record that the move leads to yet another server
	Measure                      // count how long the client waited for a message from another server
	Replay                       // send the present server the configuration, and what is kept from the cursor on
	TellCaughtUp                 // the present server has got all that the one before it had
	ForgetRefusals               // start anew to count the servers that would not serve the session
	NoteMove                     // log the move, whose replay is over
	NoteLoss                     // count and log why the session is no longer recoverable
	Drop                         // forget what the present server has got
	Stream                       // let the client's messages stream, and keep nothing
	Keep                         // keep the client's messages again
	LeaveServer                  // leave the present server for the connection that was found for the pending move
	NoteArrival                  // record where the pending move has led
	StartSearch                  // look for a connection for the pending move
	StopSearch                   // stop looking for one
)

// Machine decides how one session outlives its servers.
type Machine struct {
	state   State
	loss    Loss // why it is not recoverable
	pending PendingMove

	Began   loop.Instant // of the present leg, if it is not the first; changed by tests only
	legs    int
	cursor  int64 // number of the next message that the present server gets
	reached int64 // what any server has got: the highest cursor

	left    departure    // the server that was left last
	crashes uint8        // servers in a row that failed soon after they began to get the replay
	dead    uint8        // those that failed immediately: perhaps they had been dead before
	period  loop.Instant // when moves was 0
	moves   uint8        // since then
}

// New returns the machine of a session. kept tells that its service and its profile allow that another server continues it.
func New(kept bool) Machine {
	if kept {
		return Machine{state: Live}
	}
	return Machine{}
}

// State returns the state.
func (m *Machine) State() State { return m.state }

// Recoverable reports whether another server could continue the session.
func (m *Machine) Recoverable() bool { return rulesOf[m.state].recoverable }

// Streams reports whether the client's messages go to the server as they come.
func (m *Machine) Streams() bool { return rulesOf[m.state].streams }

// Behind reports whether the present server still gets what is kept.
func (m *Machine) Behind() bool { return rulesOf[m.state].behind }

// Resumes reports whether a server that begins now gets the replay from its beginning.
func (m *Machine) Resumes() bool { return m.state == Replaying || m.state == LastReplay }

// Replays reports whether the present server gets what is kept for a session that it has not served from the beginning.
func (m *Machine) Replays() bool { return rulesOf[m.state].behind && m.legs > 1 }

// CatchesUp reports whether the client may go ahead of the server, which still gets what is kept.
func (m *Machine) CatchesUp() bool { return rulesOf[m.state].behind && rulesOf[m.state].recoverable }

// Unrecoverable returns why the session is not recoverable; empty if it is, or never was.
func (m *Machine) Unrecoverable() string {
	if rulesOf[m.state].recoverable {
		return ""
	}
	return m.loss.Why
}

// AwaitsDelivery reports whether the client has got nothing from another server since the session left one: see Delivered.
func (m *Machine) AwaitsDelivery() bool { return m.left.outcome != known }

// AwaitsAnswer reports whether an answer may change something: see Answered.
func (m *Machine) AwaitsAnswer() bool { return m.state == Streaming || m.pending.State == MovePending }

// Legs returns how many connections have served the session.
func (m *Machine) Legs() int { return m.legs }

// Left returns when and why the session left a server last.
func (m *Machine) Left() (at loop.Instant, cause meter.Cause) { return m.left.at, m.left.cause }

// Cursor returns the number of the next message that the present server gets.
func (m *Machine) Cursor() int64 { return m.cursor }

// Advance notes that the present server has got the message at the cursor.
func (m *Machine) Advance() { m.cursor++ }

// Allowed returns how much may be kept where the service allows limit: twice as much as long as nothing was answered since a move, because
// what is kept grows older meanwhile.
func (m *Machine) Allowed(limit int64, answered profile.Position) int64 {
	if m.legs > 1 && answered == m.left.answered {
		return 2 * limit
	}
	return limit
}

// enter is the only way from one state to another.
func (m *Machine) enter(next State) {
	if !slices.Contains(transitions[m.state], next) {
		panic(fmt.Sprintf("failover: a session cannot go from %v to %v", m.state, next))
	}
	m.state = next
}

// Handle goes to the state that an event leads to, and appends the actions that follow to do, in order. It drops an event that does not fit
// the state.
func (m *Machine) Handle(e *Event, do []Action) []Action {
	switch e.Kind {
	case ServerFailed:
		return m.serverFailed(e, do)
	case ServerRefused:
		if rulesOf[m.state].served {
			m.enter(TurnedAway)
		}
	case LegBegan:
		return m.legBegan(e, do)
	case Progressed:
		return m.progressed(e, do)
	case Delivered:
		return m.delivered(do)
	case KeepingFailed:
		return m.keepingFailed(e, do)
	case Answered:
		return m.answered(e, do)
	case SearchFailed:
		if m.left.at != 0 && !m.left.counted {
			m.left.counted = true
			do = append(do, CountNotMoved)
		}
	case EndDecided:
		return m.refuseMove("the session is ending", do)
	case Ended:
		if m.Resumes() {
			do = m.arrive(do)
		}
		return m.refuseMove("the session has ended", m.settle(Blame, do))
	case MoveOrdered:
		return m.moveOrdered(e, do)
	case MoveChecked:
		return m.checkMove(e, do)
	case MoveWithdrawn:
		if m.pending.State == MovePending {
			return m.refuseMove("it was taken back", do)
		}
	case MoveUnplaced:
		return m.refuseMove(e.Why, do)
	}
	return do
}

// serverFailed leaves a server, if another one may continue the session. Otherwise Why says why not, if that is of interest.
func (m *Machine) serverFailed(e *Event, do []Action) []Action {
	switch {
	case e.Over:
		return do
	case e.LastWord: // such as a message that says that the session has failed
		return do
	case !rulesOf[m.state].recoverable:
		if m.state != Off && e.Code == frame.InternalError {
			e.Why = "not moved: " + m.loss.Why
		}
		return do
	case !rulesOf[m.state].served:
		return do
	}
	do = m.leave(e, do)
	if m.state != Left {
		do = append(do, CountStayed)
	}
	return do
}

// leave leaves the server, unless a limit forbids it, as Why says then.
func (m *Machine) leave(e *Event, do []Action) []Action {
	if e.Why, do = m.protect(e, do); e.Why != "" {
		return do
	}
	do = m.settle(Blame, m.arrive(do))
	m.left = departure{cause: e.Cause, code: e.Code, at: e.Now, answered: e.Answered, outcome: awaited}
	if e.Spared {
		m.left.outcome = spared
	}
	m.reached = max(m.reached, m.cursor)
	m.enter(Left)
	return do
}

func (m *Machine) legBegan(e *Event, do []Action) []Action {
	m.legs++
	if m.legs == 1 {
		return do
	}
	m.Began = e.Now
	switch m.state {
	case Left, TurnedAway, LastReplay:
		if m.left.counted {
			do = append(do, Redirect)
		}
	default: // the server before it has said nothing
		return append(do, TellCaughtUp)
	}
	if m.state != LastReplay {
		m.enter(Replaying)
	}
	m.cursor = e.First
	return append(do, Replay)
}

// progressed takes the next step when the present server has got what it was to get.
func (m *Machine) progressed(e *Event, do []Action) []Action {
	if !e.Configured {
		return do
	}
	if m.cursor >= m.reached {
		switch m.state {
		case Replaying:
			m.enter(CatchingUp)
			do = m.caughtUp(e, do)
		case LastReplay:
			m.enter(Draining)
			do = m.caughtUp(e, append(do, Drop))
		}
	}
	if m.cursor == e.Next {
		switch m.state {
		case CatchingUp:
			m.enter(Live)
		case Draining:
			do = m.stream(do)
		}
	}
	return do
}

func (m *Machine) caughtUp(e *Event, do []Action) []Action {
	do = append(do, TellCaughtUp, ForgetRefusals)
	if m.left.at != 0 {
		do = m.completeMove(e, append(m.arrive(do), NoteMove))
	}
	return do
}

// arrive counts that another server continues the session: it has got all that the one before had got, or has answered, and has not refused the
// session before that.
func (m *Machine) arrive(do []Action) []Action {
	if m.left.at == 0 || m.left.counted {
		return do
	}
	m.left.counted = true
	return append(do, CountMoved)
}

// delivered settles the move: the present server continues the session.
func (m *Machine) delivered(do []Action) []Action {
	if m.left.outcome == known {
		return do
	}
	do = m.settle(Blame, m.arrive(do))
	if !m.left.cause.Planned() {
		do = append(do, Measure)
	}
	return do
}

// keepingFailed makes the session unrecoverable. While it has no server, what is kept is all that the next one can get, so that the caller
// reports it again when that has begun.
func (m *Machine) keepingFailed(e *Event, do []Action) []Action {
	switch m.state {
	case Live, CatchingUp:
		m.loss = e.Loss
		m.enter(Draining)
		do = append(do, Drop)
	case Replaying: // a server that refuses the session yet leaves the whole replay to the next one
		m.loss = e.Loss
		m.enter(LastReplay)
	case LastReplay, Draining:
		if !m.loss.ForGood {
			m.loss = e.Loss
		}
		return do
	case Streaming:
		if e.Loss.ForGood {
			m.loss = e.Loss
			m.enter(GivenUp)
		}
		return do
	default:
		return do
	}
	do = m.refuseMove("the session is no longer recoverable: "+m.loss.Why, append(do, NoteLoss))
	return m.progressed(e, do)
}

// stream keeps nothing from now on.
func (m *Machine) stream(do []Action) []Action {
	if m.loss.ForGood {
		m.enter(GivenUp)
	} else {
		m.enter(Streaming)
	}
	return append(do, Stream)
}

func (m *Machine) answered(e *Event, do []Action) []Action {
	if m.state == Streaming && e.Settled && e.Received > 0 && e.Answered >= e.Received {
		m.enter(Live)
		do = append(do, Keep)
	}
	return m.checkMove(e, do)
}

// What protects servers from sessions that kill them.
const (
	// A session moves at most MaxMoves times within movesPeriod.
	MaxMoves    = 16
	movesPeriod = 5 * time.Minute
	// MovesShown is how many moves of a session are remembered.
	MovesShown = 16
	// Of servers in a row that failed within CrashTime after they began to get the replay, and that answered nothing of it, the last one that a
	// session is moved from is number MaxCrashes-1: its audio may be what crashes them.
	MaxCrashes = 2
	CrashTime  = 5 * time.Second
	// A connection that ends within Immediately may be one whose server has been dead for a while. But MaxDead such servers in a row, with those
	// that failed later, are as good as crashed.
	Immediately = 50 * time.Millisecond
	MaxDead     = 3
)

// departure is how a session left a server.
type departure struct {
	cause    meter.Cause
	code     frame.CloseCode
	at       loop.Instant // 0 for never
	answered profile.Position
	outcome  outcome
	counted  bool // whether another server has continued the session is counted
}

// outcome is what is known about the move from a server that a session has left.
type outcome uint8

const (
	known   outcome = iota // the client has got something from another server, or nothing more is to be known
	awaited                // it has not
	spared                 // it has not; and until then it is not known whether the server that was left is to blame
)

// Spares reports whether the server that was left is not to be blamed yet.
func (m *Machine) Spares() bool { return m.left.outcome == spared }

// settle closes what was open about the last departure: a server that was spared is blamed now.
func (m *Machine) settle(blame Action, do []Action) []Action {
	if m.left.outcome == spared {
		do = append(do, blame)
	}
	m.left.outcome = known
	return do
}

// protect returns why the session must not leave its server; empty if it may, which it counts.
func (m *Machine) protect(e *Event, do []Action) (string, []Action) {
	if e.Now > m.period.After(movesPeriod) {
		m.period, m.moves = e.Now, 0
	}
	if m.moves == MaxMoves {
		return fmt.Sprintf("not moved: it was moved %d times within %v", MaxMoves, movesPeriod), do
	}
	m.moves++
	if e.Cause.Planned() {
		return "", do
	}
	if m.endsAlike(e) {
		return "another server has ended it in the same way", append(m.settle(BlameAlike, do), EndAlike)
	}
	if m.failsSoon(e) {
		if e.Now > m.Began.After(Immediately) {
			m.crashes++
		} else { // perhaps it was dead before, and no one knew
			m.dead++
		}
	} else {
		m.crashes, m.dead = 0, 0
	}
	if failed := m.crashes + m.dead; m.crashes >= MaxCrashes || failed >= MaxDead {
		return fmt.Sprintf("moved from %d servers that failed", failed), do
	}
	return "", do
}

// failsSoon reports whether the present server fails soon after it began to get the replay, and has answered nothing of it.
func (m *Machine) failsSoon(e *Event) bool {
	return m.legs > 1 && e.Now < m.Began.After(CrashTime) && e.Answered == m.left.answered
}

// endsAlike reports whether the server closes the session as the one before it did, soon after it got the same from the client: it is the
// client's messages that servers take badly. A server that closes because it stops, or is full, does not.
func (m *Machine) endsAlike(e *Event) bool {
	switch e.Code {
	case frame.GoingAway, frame.ServiceRestart, frame.TryAgainLater:
		return false
	}
	return e.Cause == meter.Closed && m.left.cause == meter.Closed && e.Code == m.left.code && !e.SameServer && e.Sent && m.failsSoon(e)
}
