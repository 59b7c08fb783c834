package load

import (
	"errors"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// talk is what a client says and what it makes of the answers. Its methods are called on the client's loop.
type talk interface {
	// opened is called when the client is connected.
	opened()
	// due is called at each turn of the client, when its next message is due.
	due(at int64)
	// ready is called when the socket takes messages again.
	ready()
	// take is called with each part of the server's messages.
	take(p piece, now int64)
	// halt is called when nothing more becomes due.
	halt()
	// finished tells whether nothing that was due is unsent or unanswered.
	finished() bool
	// account counts what stayed unsent or unanswered.
	account()
	// closed is called when the server has closed the connection in order, with a code. It tells whether that was to be
	// expected.
	closed(code frame.CloseCode) bool
	// ended is called when the connection has ended.
	ended()
}

// client is one client of the server under load: the connection, and the part of the protocol that all talks share. It
// is owned by its lane's goroutine once it is connected.
type client struct {
	lane   *lane
	target *handshake.Target
	conn   *loop.Conn // nil when not connected
	talk   talk
	began  int64 // when it began to connect, by the stage's clock
	base   int64 // when its first message of the steady part is due
	inbox  inbox
	id     uint32

	greeted   bool // the first echo is back, or will never be
	waiting   bool // counted in lane.unfinished
	broken    bool // the connection failed: nothing more is sent or expected
	closeSent bool
	closeSeen bool // the server's close has been received
	left      bool // counted in stage.gone
}

// join makes an established connection the client's.
func (c *client) join(s loop.Socket, early []byte) {
	c.inbox = inbox{}
	c.closeSent, c.closeSeen = false, false
	c.conn = c.lane.loop.Add(s, c, early)
	c.talk.opened()
}

// Received implements loop.Handler.
func (c *client) Received(conn *loop.Conn, b []byte) (consumed int) {
	now := c.lane.now()
	for consumed < len(b) {
		if c.closeSeen || conn.Closed() {
			return len(b)
		}
		p, n, err := c.inbox.next(b[consumed:])
		if err != nil {
			c.breach(err)
			return len(b)
		}
		if n == 0 {
			break
		}
		consumed += n
		switch p.opcode {
		case frame.Text, frame.Binary:
			if !c.broken {
				c.talk.take(p, now)
			}
		case frame.Ping:
			c.control(frame.Pong, p.payload)
		case frame.Close:
			c.closed(p.payload)
		}
	}
	return consumed
}

// Flushed implements loop.Handler.
func (c *client) Flushed(*loop.Conn) {
	if !c.broken && !c.closeSent {
		c.talk.ready()
	}
}

// Ended implements loop.Handler.
func (c *client) Ended(conn *loop.Conn, err error) {
	conn.Close()
	switch {
	case c.closeSent || c.closeSeen:
	case errors.Is(err, io.EOF):
		c.fail("ended without a close frame")
	default:
		c.fail(kind(err))
	}
	c.gone()
	c.talk.ended()
}

// control sends a control frame.
func (c *client) control(opcode frame.Opcode, payload []byte) {
	if c.closeSent {
		return
	}
	var buf [frame.MaxControlSize]byte
	c.conn.Write(frame.Append(buf[:0], frame.Header{Fin: true, Opcode: opcode, Masked: true, Mask: c.lane.controlMask}, payload))
	c.closeSent = opcode == frame.Close
}

// closed answers the server's close frame. The server ends the connection then.
func (c *client) closed(payload []byte) {
	code, _, err := frame.ParseClose(payload)
	if err != nil {
		c.breach(err)
		return
	}
	c.closeSeen = true
	if !c.closeSent && !c.talk.closed(code) {
		c.fail("closed with " + code.String())
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, code, ""))
}

// breach ends the connection after the server broke the protocol.
func (c *client) breach(err error) {
	code := frame.ProtocolError
	var of *frame.Error
	if errors.As(err, &of) {
		code = of.Code
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, code, ""))
	c.closeSeen = true // nothing more is understood
	c.fail("protocol broken: " + err.Error())
}

// fail notes, once, that the connection is of no use any more.
func (c *client) fail(kind string) {
	if c.broken {
		return
	}
	c.broken = true
	c.lane.counts.Failed++
	c.lane.counts.error(kind)
	c.greet()
	c.lane.settle(c)
	c.lane.alive.count()
}

// greet notes that the first echo need not be waited for any more.
func (c *client) greet() {
	if !c.greeted {
		c.greeted = true
		c.lane.greeted.count()
	}
}

// leave ends the connection in order.
func (c *client) leave() {
	if c.conn == nil || c.conn.Closed() {
		c.gone()
		return
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
}

// gone notes that the connection has ended.
func (c *client) gone() {
	if c.lane.closing && !c.left {
		c.left = true
		c.lane.gone.count()
	}
}
