package backend

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// maxGreeting is how many bytes a server may send before the session of a connection that serves only one.
const maxGreeting = 64 << 10

// Conn is one pooled connection. It belongs to the event loop that its stream lives on: all methods are for that loop's goroutine,
// except Use and ReturnUnused, and those that read static fields only (Backend, Profile, Protocol, Stream).
//
// While a session uses the connection, the session is the handler of the stream's events and scans what the server sends
// with Scanner; at all other times Conn is the handler itself. The boundary knows the server's protocol: the handler presents to it the
// messages that it inspects, and does what its steps say.
//
// Thousands of connections may be idle, so the fields are in an order that leaves no gaps, and what is rarely needed is behind
// a pointer.
type Conn struct {
	// Static.
	config      *dialConfig // what it was dialed with
	slot        *pool.Slot[*Conn]
	stream      *loop.Conn
	established loop.Instant
	retireAt    loop.Instant // it serves no session that would begin later; 0 for never

	// Owned by the loop, like all fields below.
	dialing       *dial       // until the connection is in the pool
	deferred      *deferred   // what has to wait; nil for nothing, as nearly always
	boundaryTimer *loop.Timer // nil until the boundary needs one

	lease  uint32 // the number of the present lease, or of the last
	number uint32 // static: 1 for the first connection of the backend
	// sessionBegan is when the present session began, on the clock of the backend's group; 0 when there is none.
	sessionBegan pool.Instant
	// stateTime depends on the state. Idle: when the server's limit for idle connections is reached; 0 for no limit. Resetting: when that
	// began.
	stateTime loop.Instant
	pinged    loop.Instant // when the ping was sent that is not answered yet; 0 for none

	boundary profile.Boundary
	timer    loop.Timer // for one purpose at a time: a check, a pong, the reset, closing

	// Scanner follows all that the server sends. Its count of messages is that of the present session. FromServer presents the inspected messages to the boundary.
	Scanner    frame.Scanner
	FromServer Inspector

	state                    state
	silent                   bool // a ping was not answered in time
	closeSent, closeReceived bool
	midFrame                 bool   // a frame to the server was cut off: no other can follow
	received                 uint32 // count at the last ping
	roundTrip                uint32 // of the last answered ping, in microseconds
}

// dial is what matters until the connection is in the pool. Owned by the connection's loop.
type dial struct {
	ready   func(error) // tells the dialing goroutine what became of the connection
	refusal error       // why it cannot be used
}

// deferred is what has to wait. Owned by the connection's loop.
type deferred struct {
	greeting []byte    // frames that the server sent before the session, for its client
	pong     []byte    // the answer to the server's last ping, while the stream is full; nil for none
	earlyEnd *EarlyEnd // how the connection ended, for its client; nil if it has not
	cause    *cause    // why it must not serve a session, or not another one; nil if it may
	heard    int64     // see Heard
	leave    *cause    // for the close frame, in the state leaving
}

// addDeferred returns deferred, to add to it.
func (c *Conn) addDeferred() *deferred {
	if c.deferred == nil {
		c.deferred = new(deferred)
	}
	return c.deferred
}

// Heard returns how many bytes of audio the server has got on the connection in former sessions and resets, if its times continue from
// session to session.
func (c *Conn) Heard() int64 {
	if c.deferred == nil {
		return 0
	}
	return c.deferred.heard
}

// AddHeard adds to what Heard returns. The session that holds the lease tells what it has sent before it ends the lease; the connection
// itself adds the silence that resets send.
func (c *Conn) AddHeard(n int64) {
	if c.config.Profile.Failover().Continues && n > 0 {
		c.addDeferred().heard += n
	}
}

// cause returns why the connection must not serve a session, or not another one; nil if it may.
func (c *Conn) cause() *cause {
	if c.deferred == nil {
		return nil
	}
	return c.deferred.cause
}

// What the connection's timers are set for. Only tests of other packages set a timer for a TimerBoundary.
const (
	timerCheck    loop.Purpose = iota // the connection is to be checked: its age, and a ping
	timerPong                         // the pong should have come
	timerLeave                        // the server's last word has taken too long for a process that ends
	timerClose                        // the server has not closed in time
	TimerBoundary                     // the boundary's own timer
)

// timed are the states in which a timer of each purpose matters. In others, it is ignored.
var timed = [...]stateSet{
	timerCheck: in(idle, serving), timerPong: in(idle, serving), timerLeave: in(leaving), timerClose: in(closing),
	TimerBoundary: in(greeting, greeted, idle, serving, resetting, clean, leaving),
}

// Expired implements [loop.TimerHandler]. A session that is the handler of the stream calls it for the connection's timers.
func (c *Conn) Expired(_ *loop.Conn, t *loop.Timer) {
	if !timed[t.Purpose()].has(c.state) {
		return
	}
	switch t.Purpose() {
	case timerCheck:
		c.check()
	case timerPong:
		c.pongDue()
	case timerLeave:
		c.leftBy(profile.LeaveTimeout)
	case timerClose:
		c.finish()
	case TimerBoundary:
		c.boundaryTime()
	}
}

// TakeTimers takes the connection's timers off its loop before a move to another one.
func (c *Conn) TakeTimers() {
	c.timer.Take()
	if c.boundaryTimer != nil {
		c.boundaryTimer.Take()
	}
}

// PutTimers sets the timers that TakeTimers has taken on the connection's present loop.
func (c *Conn) PutTimers() {
	c.timer.Put()
	if c.boundaryTimer != nil {
		c.boundaryTimer.Put()
	}
}

// adopt takes over an established connection, and puts it into the pool when the server has sent the greeting that its profile asks for.
// It calls ready once: when the slot is filled, or with an error when the connection was closed instead. It runs on loop l.
func adopt(config *dialConfig, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established, ready func(error)) *Conn {
	c := &Conn{
		config: config, slot: slot, number: config.backend.established.Add(1), dialing: &dial{ready: ready}, established: loop.Now(), Scanner: frame.NewServerScanner(),
		boundary: profile.New(config.Profile),
	}
	c.stream = l.Add(socket, c, e.Early)
	l.Handling(c.stream)
	if age := config.MaxAge; age > 0 {
		c.retireAt = c.established.After(jittered(age))
	}
	c.Apply(c.boundary.Dialed())
	if len(e.Early) == 0 || slot.Demanded() && config.Profile.Reuse == profile.OneShot {
		c.idleIfDone(nil)
	} // otherwise what the server sent right behind its answer comes first: it may be a close frame
	return c
}

// Backend returns the backend that the connection leads to.
func (c *Conn) Backend() *Backend { return c.config.backend }

// Number tells the connection from the others of its backend: 1 for the first.
func (c *Conn) Number() uint32 { return c.number }

// Profile returns the profile that the connection was dialed for. Its backend may have another by now.
func (c *Conn) Profile() *profile.Profile { return c.config.Profile }

// Stream returns the connection on its event loop. The session makes itself the handler of its events.
func (c *Conn) Stream() *loop.Conn { return c.stream }

// Established returns when the connection was dialed.
func (c *Conn) Established() loop.Instant { return c.established }

// Protocol returns the subprotocol that the server chose; empty for none.
func (c *Conn) Protocol() string { return c.config.protocol(c.slot.Variant()) }

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	c.tellSent(op, payload)
	var buf [frame.MaxControlSize]byte
	c.stream.Write(frame.AppendControl(buf[:0], op, payload, true))
}

// Description is what an operator may want to know of a connection.
type Description struct {
	Number      uint32
	State       string        // as docs/architecture.md names them
	Established time.Duration // ago
	Sessions    int           // that it has served, the present one included
	RoundTrip   time.Duration // of the last answered ping; 0 for none
	Protocol    string        // the subprotocol; empty for none
	Boundary    string        // what the profile waits for
}

// Describe returns the connection's description. It is called on the connection's loop.
func (c *Conn) Describe() Description {
	return Description{
		Number: c.number, State: c.state.String(), Established: -c.established.Until(), Sessions: int(c.lease),
		RoundTrip: time.Duration(c.roundTrip) * time.Microsecond, Protocol: c.Protocol(), Boundary: c.boundary.Phase(),
	}
}
