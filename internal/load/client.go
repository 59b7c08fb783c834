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
	// begin is called when the steady part begins.
	begin()
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
	// finished reports whether nothing that was due is unsent or unanswered.
	finished() bool
	// account counts what stayed unsent or unanswered.
	account()
	// inSession reports whether messages become due for the client.
	inSession() bool
	// failed is called when the connection has failed: it counts what will not be answered any more.
	failed()
	// closed is called when the server has closed the connection in order, with a code. It reports whether that was to be
	// expected.
	closed(code frame.CloseCode) bool
	// ended is called when the connection has ended.
	ended()
	// refused is called when the client could not connect again.
	refused(kind string)
}

// client is one client of the server under load: the connection, and the part of the protocol that all talks share. It
// is owned by its lane's goroutine once it is connected.
type client struct {
	lane   *lane
	target *handshake.Target
	at     int        // the target's number
	conn   *loop.Conn // nil when not connected
	talk   talk
	began  int64 // when it began to connect, by the stage's clock
	took   int64 // how long it took to connect again
	base   int64 // when its first message of the steady part is due
	inbox  inbox
	id     uint32

	outcome outcome // of the session
	again   bool    // the session is not the client's first

	greeted   bool // the first echo is back, or will never be
	waiting   bool // counted in lane.unfinished
	broken    bool // the connection failed: nothing more is sent or expected
	closeSent bool
	closeSeen bool // the server's close has been received
	left      bool // counted in stage.gone
}

// outcome says what became of a session.
type outcome uint8

const (
	pending  outcome = iota
	complete         // ended in order
	failed           // ended otherwise
	refused          // could not connect
	cut              // ended by the end of the run
)

// counts returns where the client counts.
func (c *client) counts() *counts { return c.lane.counts[c.at] }

// resolve counts what became of the session. A failure takes the place of what it was taken for before.
func (c *client) resolve(o outcome) {
	if c.outcome != pending && o != failed {
		return
	}
	count := func(o outcome, n int64) {
		switch o {
		case complete:
			c.counts().Complete += n
		case failed:
			c.counts().Failed += n
		case refused:
			c.counts().Refused += n
		case cut:
			c.counts().Cut += n
		}
	}
	count(c.outcome, -1)
	count(o, 1)
	c.outcome = o
}

// join makes an established connection the client's.
func (c *client) join(s loop.Socket, early []byte) {
	c.inbox = inbox{}
	c.broken, c.closeSent, c.closeSeen = false, false, false
	c.counts().Joined++
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
func (c *client) Ended(_ *loop.Conn, err error) {
	c.drop()
	if !c.closeSeen {
		c.counts().Closes[frame.AbnormalClosure]++
	}
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

// drop closes the connection as it is.
func (c *client) drop() {
	if !c.conn.Closed() {
		c.conn.Close()
		c.counts().Parted++
	}
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
	c.counts().Closes[code]++
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
	c.resolve(failed)
	c.counts().error(kind)
	c.talk.failed()
	c.greet()
	c.lane.settle(c)
	if c.lane.sessionLength == 0 { // else it tries again
		c.lane.alive.count()
	}
}

// greet notes that the first echo need not be waited for any more.
func (c *client) greet() {
	if !c.greeted {
		c.greeted = true
		c.lane.greeted.count()
	}
}

// welcome counts how long the session's first answer took, from when the client was to connect.
func (c *client) welcome(took int64) {
	counts := c.counts()
	if c.again {
		counts.ReplyAgain.record(took)
		return
	}
	counts.FirstEcho.record(took)
	counts.LastEcho = max(counts.LastEcho, c.began+took)
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
