package backend

import (
	"time"

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
// connection's boundary: whoever is the handler presents to it what it watches, and does what its steps say.
type Conn struct {
	backend  *Backend
	slot     *pool.Slot[*Conn]
	lease    uint64 // the number of the present lease, or of the last
	stream   *loop.Conn
	protocol string

	established loop.Instant

	// Scanner follows what the server sends, over all sessions, and FromServer presents what is watched of it.
	Scanner    frame.Scanner
	FromServer Watcher

	boundary profile.Boundary
	alarm    loop.Timer  // the boundary's
	clean    bool        // the boundary says that the connection may serve a session
	ready    func(error) // tells the dialing goroutine what became of the connection; nil once it has been called
	refusal  error       // why the connection cannot be used (greeting)

	mode     mode
	broken   *retirement  // why the connection must not serve the session that has leased it; nil if it may
	retireAt loop.Instant // it serves no session that would begin later; 0 for never
	// idleUntil is when it has waited for a session as long as the server lets it; 0 for no limit.
	idleUntil loop.Instant

	// For pings, see ping.go.
	pinged    loop.Instant  // when the ping was sent that is not answered yet; 0 for none
	token     uint64        // its payload
	received  uint64        // what the server had sent by then
	roundTrip time.Duration // of the last answered ping
	silent    bool          // a ping was not answered in time

	kept  *kept  // what waits; nil for nothing, as nearly always
	begun uint64 // Scanner.Messages when the present session began

	closeSent, closeReceived bool
	cut                      bool       // a frame to the server was cut off: no other can follow
	timer                    loop.Timer // bounds resetting and retiring; when waiting and serving, the next look
}

// TakeTimers takes the connection's timers off its loop, for a move to another one. What it returns sets them on that loop.
func (c *Conn) TakeTimers() (put func(*loop.Loop)) {
	looks, alarms := c.timer.Take(), c.alarm.Take()
	return func(l *loop.Loop) {
		if looks {
			c.timer.Put(l)
		}
		if alarms {
			c.alarm.Put(l)
		}
	}
}

// kept is what the server sent that has to wait for its moment.
type kept struct {
	greeting []byte // frames sent before the session of a one-shot connection
	pong     []byte // the answer to its last ping, when the stream was full; nil for none
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
func adopt(b *Backend, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established, ready func(error)) *Conn {
	c := &Conn{
		backend: b, slot: slot, protocol: e.Protocol, established: loop.Now(), Scanner: frame.NewServerScanner(),
		boundary: profile.New(b.options.Profile), ready: ready,
	}
	c.stream = l.Add(socket, c, e.Early)
	if age := b.options.MaxAge; age > 0 {
		c.retireAt = c.established.After(jittered(age))
	}
	c.act(c.boundary.Dialed())
	c.rest(nil)
	return c
}

// forgo gives a connection up that is not available yet.
func (c *Conn) forgo() {
	if c.mode == greeting {
		c.failed(retirement{pool.Shutdown, frame.GoingAway, "the proxy ends"})
	}
}

// fill makes the connection available.
func (c *Conn) fill() {
	ready := c.ready
	c.ready = nil
	c.waits()
	c.slot.Filled(c)
	ready(nil)
}

// Backend returns the backend that the connection leads to.
func (c *Conn) Backend() *Backend { return c.backend }

// Stream returns the connection on its event loop. The session makes itself the handler of its events.
func (c *Conn) Stream() *loop.Conn { return c.stream }

// Protocol returns the subprotocol that the server chose; empty for none.
func (c *Conn) Protocol() string { return c.protocol }

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	var buf [frame.MaxControlSize]byte
	c.stream.Write(frame.AppendControl(buf[:0], op, payload, true))
}
