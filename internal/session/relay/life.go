package relay

import (
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// state is how far a session has come. docs/architecture.md draws the states and the transitions between them.
type state uint8

const (
	// relaying: frames pass both ways.
	relaying state = iota
	// moving: the backend could not serve the session, and the session waits for another connection.
	moving
	// answering: the client has ended its part. What the backend still has to say reaches the client.
	answering
	// completing: the client has sent its last message, and the backend got the profile's reset instead. The backend's last
	// answer still reaches the client.
	completing
	// closing: the session's end is decided. The frame on its way to the client is completed before the close frame.
	closing
	// lingering: the lease is over and the client has its close frame. The client's own close frame is awaited.
	lingering
	// gone: nothing is left.
	gone

	states = iota
)

func (s state) String() string {
	return [states]string{"relaying", "moving", "answering", "completing", "closing", "lingering", "gone"}[s]
}

// transitions are the allowed ones. Besides, a panic takes a session from any state to gone.
var transitions = [states][]state{
	relaying:   {moving, answering, completing, closing, lingering},
	moving:     {relaying, lingering},
	answering:  {closing, lingering},
	completing: {moving, closing, lingering},
	closing:    {lingering},
	lingering:  {gone},
	gone:       {},
}

// reading says when a client is read.
type reading uint8

const (
	whileTaken reading = iota // while the backend and the boundary take what the client sends
	whileKept                 // while there is room for what the client sends: never if nothing is kept
	always                    // so that the client's end is seen
)

// rules say what a session does in a state.
type rules struct {
	leased    bool    // it holds a lease, and what the backend sends reaches the client
	toBackend bool    // what the client sends reaches the backend
	kept      bool    // what the client sends is looked at in a session that may outlive its server
	client    reading // when the client is read
	limited   bool    // the service's limit on a session's duration applies
	bounded   bool    // it lasts no longer than [Session.closeTimeout]
}

// rulesOf has the rules of each state. The search for a connection bounds moving. Completing lasts for as long as the backend sends something within
// the profile's end timeout, and no longer than the service's CloseTimeout once the client has closed.
var rulesOf = [states]rules{
	relaying:   {leased: true, toBackend: true, kept: true, limited: true},
	moving:     {client: whileKept, kept: true, limited: true},
	answering:  {leased: true, client: always, bounded: true},
	completing: {leased: true, kept: true, client: always},
	closing:    {leased: true, client: always, bounded: true},
	lingering:  {client: always, bounded: true},
	gone:       {},
}

// eventKind is what happens to a session.
type eventKind uint8

const (
	// clientClosed: the client sent its close frame.
	clientClosed eventKind = iota
	// clientBroke: the client broke RFC 6455.
	clientBroke
	// clientLost: nothing more can come from the client.
	clientLost
	// backendClosed: the backend sent a valid close frame.
	backendClosed
	// backendLost: nothing more can come from the backend that could be passed on, so that a frame on its way to the client
	// stays incomplete.
	backendLost
	// unsolicited: the backend sent what the session did not ask for, none of which has been passed on.
	unsolicited
	// unfit: the boundary says that the connection cannot serve the session to its end.
	unfit
	// notServed: the boundary says that the connection cannot serve the session, but that another one may. Nothing that the
	// backend said has reached the client.
	notServed
	// interrupted: the backend must not or cannot continue the session, and another one may.
	interrupted
	// replaced: the boundary says that the client's message was its last, and that the backend is to get the reset instead.
	replaced
	// answered: the client has got the last answer that it may expect.
	answered
	// closeSent: the frame on its way to the client was completed, and the close frame sent.
	closeSent
	// stopped: the proxy ends the session: a limit is reached, or the proxy shuts down.
	stopped
	// expired: the state has lasted for the CloseTimeout.
	expired
	// found: another connection was leased for the session.
	found
	// notFound: there is no other connection for the session.
	notFound
)

// party is who can end a session.
type party = meter.Party

const (
	byClient  = meter.Client
	byBackend = meter.Server
	byProxy   = meter.Proxy
)

// event is something that happens to a session, with what its consequences depend on.
type event struct {
	kind eventKind

	// Who ends the session and how, if the event ends it.
	by     party
	class  meter.Class // why, for the statistics
	code   frame.CloseCode
	reason string

	fault  bool // the backend is to blame, for the event's reason
	full   bool // the backend said that it is full
	late   bool // the client has waited for as long as clients may
	slow   bool // the backend took too long for the client's last result
	closed bool // with interrupted: the backend has closed the session with the code
	owed   bool // the client has ended its part, and the backend may still have something to say to it

	// For actions; no decision depends on it.
	payload  []byte         // of the close frame that the backend is to get, with owed; valid until handle returns
	why      profile.Reason // with notServed
	settings uint64         // with notServed because of OtherSettings

	// The way to the client when the event happens.
	clientEnded bool // the client's stream has ended
	midFrame    bool // a frame on its way to the client is incomplete
}

// action is something that a session has to do because of an event.
type action uint8

const (
	recordEnd    action = iota // record who ends the session and why
	undoEnd                    // forget who ends the session and why
	relayClose                 // tell the backend that the client has ended its part
	bound                      // end the state after the service's CloseTimeout
	sendReset                  // send the backend the profile's reset instead of the client's last message
	queueClose                 // send the client a close frame as soon as the frame on its way is complete
	sendClose                  // send the client a close frame now
	leaveBackend               // end the lease, so that another backend can serve the session
	startSearch                // look for another connection
	stopSearch                 // stop looking for one
	startLeg                   // start relaying over the connection that was found
	endLease                   // end the lease
	endStream                  // end the stream towards the client
	forget                     // close the client's connection and forget the session
)

// maxTries is how many connections are tried for a session, without those of full servers.
const maxTries = 16

// life is a session's life cycle: its state, and what decides about the next one. It is data: it does no I/O, has no clock and
// calls nothing. Its owner reports what happens ([life.handle]) and carries out what follows.
type life struct {
	state      state
	turnedAway uint8 // connections that could not serve the session
	tries      uint8 // of those, the ones whose servers were not full
	// discardInput: the client has sent its last frame, a close frame or one that broke RFC 6455. What follows is not looked at.
	discardInput bool
	told         bool // the client has its close frame
	degraded     bool // the client was told that its session or service is degraded, see sayState
	hurried      bool // the process is about to end: each part of the session's end has at most [LastCloseTimeout]
}

// enter is the only way from one state to another.
func (l *life) enter(next state) {
	if !slices.Contains(transitions[l.state], next) {
		panic(fmt.Sprintf("session: a session cannot go from %v to %v", l.state, next))
	}
	l.state = next
}

// handle goes to the state that an event leads to, and appends the actions that follow to do, in order. It drops an event that does
// not fit the state. It may change who ends the session and how, since that may depend on the state.
func (l *life) handle(e *event, do []action) []action {
	if e.kind == clientClosed || e.kind == clientBroke {
		l.discardInput = true
	}
	before := l.state
	do = l.next(e, do)
	if e.kind == stopped && e.class == meter.Shutdown && !l.hurried {
		l.hurried = true
		if l.state == before && rulesOf[before].bounded { // by the service's time
			do = append(do, bound)
		}
	}
	return do
}

func (l *life) next(e *event, do []action) []action {
	switch l.state {
	case relaying:
		return l.whileRelaying(e, do)
	case moving:
		return l.whileMoving(e, do)
	case answering:
		return l.whileAnswering(e, do)
	case completing:
		return l.whileCompleting(e, do)
	case closing:
		return l.whileClosing(e, do)
	case lingering:
		return l.whileLingering(e, do)
	}
	return do
}

func (l *life) whileRelaying(e *event, do []action) []action {
	switch e.kind {
	case clientClosed, clientBroke:
		if e.owed {
			l.enter(answering)
			return append(do, recordEnd, relayClose)
		}
		return l.end(e, append(do, recordEnd))
	case clientLost, backendClosed, unfit, stopped:
		return l.end(e, append(do, recordEnd))
	case backendLost, unsolicited:
		return l.endNow(e, append(do, recordEnd))
	case interrupted:
		l.enter(moving)
		return append(do, leaveBackend, startSearch)
	case replaced:
		l.enter(completing)
		return append(do, recordEnd, sendReset)
	case notServed:
		l.enter(moving)
		do = append(do, leaveBackend)
		l.turnedAway = min(l.turnedAway, 254) + 1
		if !e.full { // a full server is asked again until the client has waited for long enough
			l.tries++
		}
		if l.tries >= maxTries || e.late {
			e.by, e.class, e.code = byProxy, meter.BackendFull, frame.TryAgainLater
			return l.endUnserved(e, append(do, stopSearch, recordEnd))
		}
		return append(do, startSearch)
	}
	return do
}

func (l *life) whileMoving(e *event, do []action) []action {
	switch e.kind {
	case found:
		l.enter(relaying)
		return append(do, startLeg)
	case notFound, clientLost, clientClosed, clientBroke, stopped:
		return l.endUnserved(e, append(do, stopSearch, recordEnd))
	}
	return do
}

func (l *life) whileAnswering(e *event, do []action) []action {
	switch e.kind {
	case answered, clientLost, backendClosed, unfit, stopped, expired,
		notServed: // a client that has closed needs no other backend
		return l.end(e, do)
	case backendLost, unsolicited:
		return l.endNow(e, do)
	}
	return do
}

func (l *life) whileCompleting(e *event, do []action) []action {
	switch e.kind {
	case clientClosed, clientBroke:
		return append(do, bound)
	case answered, clientLost, stopped, expired:
		return l.end(e, do)
	case interrupted: // the next backend gets the client's last message again
		if l.discardInput { // a client that has closed needs none
			return l.endNow(e, append(do, recordEnd))
		}
		l.enter(moving)
		return append(do, undoEnd, leaveBackend, startSearch)
	case unfit, notServed:
		e.fault = !e.full && !e.slow
		return l.end(e, append(do, recordEnd))
	case backendClosed:
		e.class, e.code, e.reason, e.fault = meter.BackendFailed, frame.InternalError, profile.ServerClosed.String(), true
		return l.end(e, append(do, recordEnd))
	case backendLost:
		return l.endNow(e, append(do, recordEnd))
	case unsolicited:
		return l.endNow(e, do)
	}
	return do
}

func (l *life) whileClosing(e *event, do []action) []action {
	switch e.kind {
	case closeSent:
		l.told = true
		return l.release(e, do)
	case unsolicited:
		return l.endNow(e, do)
	case clientLost, backendLost, expired:
		return l.release(e, do)
	}
	return do
}

func (l *life) whileLingering(e *event, do []action) []action {
	switch e.kind {
	case clientClosed, clientBroke:
		return append(do, endStream)
	case clientLost, expired:
		l.enter(gone)
		return append(do, forget)
	}
	return do
}

// end ends the session in order: the client gets a close frame at a frame boundary, then the lease ends, and then the client's part
// in closing is awaited.
func (l *life) end(e *event, do []action) []action {
	if e.midFrame && !e.clientEnded {
		l.enter(closing)
		return append(do, queueClose)
	}
	return l.endNow(e, do)
}

// endNow ends the session without waiting for the frame on its way to the client, which will not be completed. A client that has
// got the beginning of a frame cannot be sent a close frame: it sees the connection end in the middle of it.
func (l *life) endNow(e *event, do []action) []action {
	if !e.midFrame && !e.clientEnded {
		do, l.told = append(do, sendClose), true
	}
	return l.release(e, do)
}

// release ends the lease.
func (l *life) release(e *event, do []action) []action { return l.linger(e, append(do, endLease)) }

// endUnserved ends a session that has no connection.
func (l *life) endUnserved(e *event, do []action) []action {
	if !e.clientEnded {
		do, l.told = append(do, sendClose), true
	}
	return l.linger(e, do)
}

// linger awaits the client's part in closing.
func (l *life) linger(e *event, do []action) []action {
	l.enter(lingering)
	if e.clientEnded {
		l.enter(gone)
		return append(do, forget)
	}
	if l.discardInput || !l.told {
		do = append(do, endStream)
	}
	return do
}

// retire ends the session after a panic, whatever state it is in. It reports whether there is anything to end.
func (l *life) retire() (was state, do bool) {
	was, l.state = l.state, gone
	return was, was != gone
}
