package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// talk decides what a client sends, and checks the answers. Its methods run on the client's loop.
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
	// halt is called when no more messages become due.
	halt()
	// finished reports whether everything that was due is sent and answered.
	finished() bool
	// account counts what stayed unsent or unanswered.
	account()
	// inSession reports whether messages become due for the client.
	inSession() bool
	// failed is called when the connection has failed. It counts the messages that no longer get an answer.
	failed()
	// ended is called when the connection has ended.
	ended()
	// refused is called when the client could not connect again.
	refused(kind string)
}

// client is one client of the server under load: the connection, and the part of the protocol that all talks share. Its
// lane's goroutine owns it once it is connected.
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

	greeted   bool // the client has its first echo, or can no longer get it
	waiting   bool // counted in lane.unfinished
	broken    bool // the connection failed: the client sends and expects nothing more
	closeSent bool
	closeSeen bool // the server's close has been received
	left      bool // counted in stage.gone
}

// outcome is how a session ended.
type outcome uint8

const (
	pending  outcome = iota
	complete         // ended in order
	failed           // ended otherwise
	refused          // could not connect
	cut              // the run ended first
)

// counts returns the counts of the client's target.
func (c *client) counts() *counts { return c.lane.counts[c.at] }

// setOutcome sets and counts the outcome of the session. A failure replaces an outcome that was counted before.
func (c *client) setOutcome(o outcome) {
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

// join gives the client an established connection.
func (c *client) join(s loop.Socket, early []byte) {
	c.inbox = inbox{}
	c.broken, c.closeSent, c.closeSeen = false, false, false
	c.counts().joined++
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
			c.failProtocol(err)
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
		c.fail(Kind(err))
	}
	c.gone()
	c.talk.ended()
}

// drop closes the connection as it is.
func (c *client) drop() {
	if !c.conn.Closed() {
		c.conn.Close()
		c.counts().parted++
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
		c.failProtocol(err)
		return
	}
	c.closeSeen = true
	c.counts().Closes[code]++
	if !c.closeSent {
		c.fail("closed with " + code.String())
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, code, ""))
}

// failProtocol sends a close frame and fails the connection, because the server broke the protocol.
func (c *client) failProtocol(err error) {
	code := frame.ProtocolError
	if of, ok := errors.AsType[*frame.Error](err); ok {
		code = of.Code
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, code, ""))
	c.closeSeen = true // what comes now cannot be parsed
	c.fail("protocol broken: " + err.Error())
}

// fail marks the connection as broken. Only the first call for a connection has an effect.
func (c *client) fail(kind string) {
	if c.broken {
		return
	}
	c.broken = true
	c.setOutcome(failed)
	c.counts().error(kind)
	c.talk.failed()
	c.markGreeted()
	c.lane.settle(c)
	if c.lane.sessionLength == 0 { // otherwise the client connects again
		c.lane.alive.count()
	}
}

// markGreeted marks the client as greeted. Only the first call has an effect.
func (c *client) markGreeted() {
	if !c.greeted {
		c.greeted = true
		c.lane.greeted.count()
	}
}

// recordFirstAnswer records how long the session's first answer took, from when the client should have connected.
func (c *client) recordFirstAnswer(took int64) {
	counts := c.counts()
	if c.again {
		counts.ReplyAgain.Record(took)
		return
	}
	counts.FirstEcho.Record(took)
	counts.lastEcho = max(counts.lastEcho, c.began+took)
}

// leave ends the connection in order.
func (c *client) leave() {
	if c.conn == nil || c.conn.Closed() {
		c.gone()
		return
	}
	c.control(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
}

// gone counts the client in stage.gone, once, if the lane is closing.
func (c *client) gone() {
	if c.lane.closing && !c.left {
		c.left = true
		c.lane.gone.count()
	}
}

// inbox parses the frames of a server as they arrive.
type inbox struct {
	remaining int64        // payload bytes of the current data frame that are still to come
	opcode    frame.Opcode // Text or Binary inside a message, Continuation (0) between messages
	fin       bool         // the current frame ends its message
}

// piece is a control frame, or a part of a message.
type piece struct {
	payload []byte
	opcode  frame.Opcode // Text or Binary for a part of a message, or the control frame's
	first   bool         // begins a message
	last    bool         // ends a message
}

// next returns the piece at the start of b and its length in bytes. The length is 0 if more bytes are needed: then the
// caller must present b again, with more bytes behind it.
func (in *inbox) next(b []byte) (p piece, n int, err error) {
	start := 0
	if in.remaining == 0 {
		h, size, err := frame.ParseHeader(b)
		switch {
		case err != nil:
			return p, 0, err
		case len(b) > 1 && b[1]&0x80 != 0:
			return p, 0, frame.ErrMasked
		case size == 0:
			return p, 0, nil
		case h.Opcode.IsControl():
			n = size + int(h.Length)
			if n > len(b) {
				return p, 0, nil
			}
			return piece{payload: b[size:n], opcode: h.Opcode}, n, nil
		case h.Opcode == frame.Continuation && in.opcode == frame.Continuation:
			return p, 0, frame.ErrNoMessage
		case h.Opcode != frame.Continuation && in.opcode != frame.Continuation:
			return p, 0, frame.ErrInMessage
		case h.Opcode != frame.Continuation:
			in.opcode, p.first = h.Opcode, true
		}
		in.fin, in.remaining, start = h.Fin, h.Length, size
	}
	length := min(int64(len(b)-start), in.remaining)
	in.remaining -= length
	n = start + int(length)
	p.payload, p.opcode = b[start:n], in.opcode
	if in.remaining == 0 && in.fin {
		p.last, in.opcode = true, frame.Continuation
	}
	return p, n, nil
}

// Kind returns a short name for the kind of an error, so that errors can be counted by kind.
func Kind(err error) string {
	if status, ok := errors.AsType[*handshake.StatusError](err); ok {
		return fmt.Sprintf("HTTP %d", status.Status)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no local port left"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "no descriptor left"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return innermost(err).Error()
}

// innermost returns the innermost error, or one that hides secrets of those within. Outer errors name addresses, which differ from one connection to the
// next.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || secret.IsMasked(err) {
			return err
		}
		err = inner
	}
}
