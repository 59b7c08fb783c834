package backend

import (
	"math/rand/v2"
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
// with Scanner; at all other times Conn is the handler itself.
type Conn struct {
	backend  *Backend
	slot     *pool.Slot[*Conn]
	stream   *loop.Conn
	protocol string

	established time.Time

	// Scanner follows what the server sends, over all sessions.
	Scanner frame.Scanner

	mode     mode
	broken   string // why the connection must not serve the session that has leased it
	greeting []byte // frames sent before the session of a one-shot connection
	pong     []byte // the answer to the server's last ping, when the stream was full; nil for none
	begun    uint64 // Scanner.Messages when the present session began
	expected uint64 // Scanner.Messages when the server will owe nothing more (resetting)

	closeSent, closeReceived bool
	cut                      bool       // a frame to the server was cut off: no other can follow
	timer                    loop.Timer // bounds resetting and retiring
}

// mode is what the connection, while it is the handler of its stream, makes of what arrives.
type mode uint8

const (
	waiting   mode = iota // idle, or leased by a session that has not started yet
	serving               // a session is the handler
	resetting             // what a session left unread is awaited and dropped
	retiring              // all is dropped until the server closes
)

// adopt makes an established connection part of the pool. It runs on loop l.
func adopt(b *Backend, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established) {
	c := &Conn{backend: b, slot: slot, protocol: e.Protocol, established: time.Now(), Scanner: frame.NewServerScanner()}
	c.stream = l.Add(socket, c, e.Early)
	slot.Filled(c)
}

// Use calls f on the connection's loop, where its session is to start, from any other goroutine. A connection that was
// lost since it was leased is not alive: its lease has ended then, and the caller leases another.
func (c *Conn) Use(f func(alive bool)) {
	ok := c.stream.Post(func() {
		if c.broken != "" {
			c.retire(frame.GoingAway, c.broken)
			f(false)
			return
		}
		c.sendPong()
		c.mode = serving
		c.backend.worker.served()
		c.begun = c.Scanner.Messages
		f(true)
	})
	if !ok { // the process ends
		f(false)
	}
}

// Backend returns the backend that the connection leads to.
func (c *Conn) Backend() *Backend { return c.backend }

// Stream returns the connection on its event loop. The session makes itself the handler of its events.
func (c *Conn) Stream() *loop.Conn { return c.stream }

// Protocol returns the subprotocol that the server chose; empty for none.
func (c *Conn) Protocol() string { return c.protocol }

// TakeGreeting returns the frames, or the beginning of them, that the server sent before the session, to be presented
// to the client. They have passed the Scanner.
func (c *Conn) TakeGreeting() []byte {
	greeting := c.greeting
	c.greeting = nil
	return greeting
}

// Answered returns how many whole messages the server has sent in this session, and whether another is under way.
func (c *Conn) Answered() (whole uint64, another bool) {
	return c.Scanner.Messages - c.begun, !c.Scanner.AtMessageBoundary()
}

// End ends the lease, after the session saw this traffic. The profile says whether the connection goes back to the pool,
// now or once the server has answered all it was asked; otherwise it is closed, with the code and reason unless close
// frames have been exchanged before. midFrame tells that a frame to the server was cut off, so that not even a close frame
// can be sent. End returns what becomes of the connection.
func (c *Conn) End(t profile.Traffic, midFrame bool, code frame.CloseCode, reason string) profile.Verdict {
	c.takeBack()
	verdict := c.backend.options.Profile.Judge(t)
	if c.stream.Ended() || c.closeSent || c.closeReceived || midFrame {
		verdict = profile.Discard
	}
	if verdict == profile.Clean && c.stream.Held() > 0 { // the beginning of something that nobody asked for
		verdict = profile.Discard
	}
	switch verdict {
	case profile.Clean:
		c.idle()
	case profile.Await:
		c.mode = resetting
		c.expected = c.begun + t.Sent
		c.slot.Reset()
		c.timer.Set(c.stream.Loop(), c.backend.options.ResetTimeout, func() {
			c.retire(frame.GoingAway, "no answer in time")
		})
	default:
		c.cut = midFrame
		c.retire(code, reason)
	}
	return verdict
}

// SendClose relays a close frame's payload to the server; the session goes on until the server's own close arrives. The
// stream must be at a frame boundary.
func (c *Conn) SendClose(payload []byte) {
	c.closeSent = true
	c.sendControl(frame.Close, payload)
}

// CloseReceived notes that the server sent its close frame to the session.
func (c *Conn) CloseReceived() { c.closeReceived = true }

// takeBack makes the connection the handler of its stream again.
func (c *Conn) takeBack() {
	c.stream.SetHandler(c)
	c.stream.Resume()
}

// idle gives the connection back to the pool.
func (c *Conn) idle() {
	c.mode = waiting
	c.timer.Stop()
	c.slot.Return()
}

// lost notes, while no session is being served, that the connection cannot serve one any more.
func (c *Conn) lost(code frame.CloseCode, reason string) {
	if c.broken != "" {
		return
	}
	c.broken = reason
	if c.slot.Sessions() == 0 && time.Since(c.established) < probation {
		c.backend.worker.lostOnProbation(reason)
	}
	if c.slot.Withdraw() {
		c.backend.options.Log.Debug("idle connection retired", "backend", c.backend.URL(), "reason", reason)
		c.close(code, reason)
	}
	// Otherwise it has been leased this moment, or withdrawn by Close, and they will see it.
}

// retire ends the lease with the connection being closed.
func (c *Conn) retire(code frame.CloseCode, reason string) {
	c.slot.Discard()
	c.close(code, reason)
}

// closeWithdrawn closes an idle connection whose slot is retiring already.
func (c *Conn) closeWithdrawn() { c.close(frame.GoingAway, "") }

// close closes the connection in order: a close frame, unless one was sent, and a bounded wait for the server's part.
func (c *Conn) close(code frame.CloseCode, reason string) {
	c.mode = retiring
	c.greeting = nil
	if c.stream.Ended() {
		c.finish()
		return
	}
	if !c.closeSent && !c.cut {
		c.SendClose(frame.AppendClosePayload(nil, code, reason))
	}
	if c.closeReceived || c.cut {
		c.stream.CloseWrite()
	}
	c.timer.Set(c.stream.Loop(), c.backend.options.CloseTimeout, c.finish)
}

// finish gives the connection and its slot up.
func (c *Conn) finish() {
	if c.stream.Closed() {
		return
	}
	c.timer.Stop()
	c.stream.Close()
	c.slot.Gone()
}

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	var buf [frame.MaxControlSize]byte
	h := frame.Header{Fin: true, Opcode: op, Masked: true, Mask: rand.Uint32()}
	c.stream.Write(frame.Append(buf[:0], h, payload))
}
