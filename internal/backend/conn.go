package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// maxGreeting is the most, in bytes, that a server may send before the first session of a connection that will serve
// only that one.
const maxGreeting = 64 << 10

// Conn is one pooled connection. It belongs to the event loop that its stream lives on: all fields and methods are for
// that loop's goroutine, except Use.
//
// While a session holds the lease, the session is the handler of the stream's events and scans what the server sends
// with Scanner; at all other times Conn is the handler itself. What the server's protocol demands is the business of the
// connection's boundary: whoever is the handler presents to it what it inspects, and does what its steps say.
//
// Thousands of connections may be idle, so the fields are in an order that leaves no gaps, and what is rarely needed is behind
// a pointer.
type Conn struct {
	made    *recipe // how it was
	slot    *pool.Slot[*Conn]
	stream  *loop.Conn
	dialing *dialing    // until the connection is in the pool
	kept    *kept       // what waits; nil for nothing, as nearly always
	alarm   *loop.Timer // the boundary's; nil until it is needed

	lease uint64 // the number of the present lease, or of the last
	begun uint64 // Scanner.Messages when the present session began
	// sessionBegan is when the present session began, on the clock of the backend's group; 0 when there is none.
	sessionBegan pool.Instant
	established  loop.Instant
	retireAt     loop.Instant // it serves no session that would begin later; 0 for never
	idleUntil    loop.Instant // it has waited for a session then as long as the server lets it; 0 for no limit
	pinged       loop.Instant // when the ping was sent that is not answered yet; 0 for none

	boundary profile.Boundary
	timer    loop.Timer // bounds resetting and retiring; when waiting and serving, the next look

	// Scanner follows what the server sends, over all sessions, and FromServer presents what is inspected of it.
	Scanner    frame.Scanner
	FromServer Inspector

	mode                     mode
	clean                    bool // the boundary says that the connection may serve a session
	silent                   bool // a ping was not answered in time
	closeSent, closeReceived bool
	cut                      bool   // a frame to the server was cut off: no other can follow
	received                 uint32 // what the server had sent when the last ping was, see count
	roundTrip                uint32 // of the last answered ping, in microseconds
}

// dialing is what matters until the connection is in the pool.
type dialing struct {
	ready   func(error) // tells the dialing goroutine what became of the connection
	refusal error       // why it cannot be used
}

// What the connection's timers are set for.
const (
	timerLook    loop.Purpose = iota // the next look at the connection
	timerPong                        // the pong should be there
	timerReset                       // the reset has taken too long
	timerClose                       // the server's part in closing has taken too long
	timerAlarmed                     // the boundary asked for it
)

// Expired implements [loop.TimerHandler]. A session that is the handler of the stream calls it for the connection's timers.
func (c *Conn) Expired(_ *loop.Conn, t *loop.Timer) {
	switch t.Purpose() {
	case timerLook:
		c.look()
	case timerPong:
		c.pongDue()
	case timerReset:
		c.retire(retirement{pool.ResetFailed, frame.GoingAway, "no answer in time"})
	case timerClose:
		c.finish()
	case timerAlarmed:
		c.alarmed()
	}
}

// TakeTimers takes the connection's timers off its loop before a move to another one.
func (c *Conn) TakeTimers() {
	c.timer.Take()
	if c.alarm != nil {
		c.alarm.Take()
	}
}

// PutTimers sets the timers that TakeTimers has taken on the connection's present loop.
func (c *Conn) PutTimers() {
	c.timer.Put()
	if c.alarm != nil {
		c.alarm.Put()
	}
}

// kept is what has to wait for its moment: what the server sent, and how the connection ended before its session began.
type kept struct {
	greeting []byte      // frames sent before the session of a connection that serves only one
	pong     []byte      // the answer to its last ping, when the stream was full; nil for none
	farewell *EarlyEnd   // nil as long as the server has not ended the connection
	broken   *retirement // why it must not serve a session, or not another one; nil if it may
}

// keep returns what waits, to add to it.
func (c *Conn) keep() *kept {
	if c.kept == nil {
		c.kept = new(kept)
	}
	return c.kept
}

// mode is what the connection, while it is the handler of its stream, makes of what arrives.
type mode uint8

const (
	greeting  mode = iota // dialed; the server's greeting is awaited
	waiting               // idle, or leased by a session that has not started yet
	serving               // a session is the handler
	resetting             // what a session left unread is awaited and dropped
	retiring              // all is dropped until the server closes
)

// adopt makes an established connection part of the pool, as soon as the server has said what its profile has it say first.
// ready is called once: with the slot filled, or with an error when the connection has been closed instead. It runs on loop l.
func adopt(r *recipe, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established, ready func(error)) *Conn {
	c := &Conn{
		made: r, slot: slot, dialing: &dialing{ready: ready}, established: loop.Now(), Scanner: frame.NewServerScanner(),
		boundary: profile.New(r.Profile),
	}
	c.stream = l.Add(socket, c, e.Early)
	l.Handling(c.stream)
	if age := r.MaxAge; age > 0 {
		c.retireAt = c.established.After(jittered(age))
	}
	c.act(c.boundary.Dialed())
	if len(e.Early) == 0 || slot.Demanded() && r.Profile.Reuse == profile.OneShot {
		c.rest(nil)
	} // otherwise what the server said together with its answer comes first: it may be a close
	return c
}

// forgo gives a connection up that is not available yet, because it is not wanted any more.
func (c *Conn) forgo() {
	if c.mode == greeting {
		c.failed(retirement{pool.Shutdown, frame.GoingAway, "not wanted any more"}, nil)
	}
}

// fill makes the connection available.
func (c *Conn) fill() {
	ready := c.dialing.ready
	c.dialing = nil
	defer ready(nil) // whatever happens
	c.waits()
	c.slot.Filled(c)
}

// Backend returns the backend that the connection leads to.
func (c *Conn) Backend() *Backend { return c.made.backend }

// Profile returns the profile that the connection was dialed for. Its backend may have another by now.
func (c *Conn) Profile() *profile.Profile { return c.made.Profile }

// Stream returns the connection on its event loop. The session makes itself the handler of its events.
func (c *Conn) Stream() *loop.Conn { return c.stream }

// Protocol returns the subprotocol that the server chose; empty for none.
func (c *Conn) Protocol() string { return c.made.protocol(c.slot.Variant()) }

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	var buf [frame.MaxControlSize]byte
	c.stream.Write(frame.AppendControl(buf[:0], op, payload, true))
}
