package backend

import (
	"fmt"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file is Conn as the handler of its stream, while no session is.

// Received implements [loop.Handler].
func (c *Conn) Received(_ *loop.Conn, b []byte) int {
	var last lastPing
	n := c.receive(b, &last)
	c.answer(&last)
	return n
}

// lastPing is the last ping in what was received together. Only that one needs an answer (RFC 6455, section 5.5.3), so that the answers to many do not
// keep the loop from others.
type lastPing struct {
	found   bool
	payload []byte
}

// receive is Received but for the answer to pings.
func (c *Conn) receive(b []byte, last *lastPing) int {
	pos := 0
	for {
		if inPool.has(c.state) && c.forSession(b[pos:]) {
			c.stream.PauseBefore(b[pos:])
			return len(b)
		}
		c.Scanner.Inspect = c.inspected()
		run, err := c.Scanner.Next(b[pos:])
		if run.Data > 0 && c.hasGreeted() {
			c.answer(last) // before the connection perhaps ends
			c.dataWhileIdle(b[pos : pos+run.Data])
		}
		pos += run.Consumed
		if err == nil && run.Inspect {
			var n int
			n, err = c.FromServer.Present(&c.boundary, profile.FromServer, &c.Scanner, &run, b[pos:], func(s profile.Step, _ []byte, _ bool) { c.Apply(s) })
			pos += n
		}
		switch {
		case err != nil && ended.has(c.state):
			c.stream.CloseWrite()
			return len(b)
		case err != nil:
			c.fail(*protocolError(err), nil)
			return len(b)
		case run.HasControl():
			if run.Control == frame.Ping {
				last.found, last.payload = true, append(last.payload[:0], run.Payload...)
			}
			c.control(run.Control, run.Payload)
		case !run.Inspect:
			c.answer(last)
			c.idleIfDone(b[pos:])
			if inPool.has(c.state) && pos < len(b) && !frame.Opcode(b[pos]&0xf).IsControl() {
				c.dataWhileIdle(nil) // part of a header, which a session would take for that of its first answer
			}
			return pos
		}
		if c.stream.Closed() {
			return len(b)
		}
	}
}

// inspected returns the kinds of messages that the boundary inspects. On a connection that was dialed for one client, all that the server
// says behind its greeting is for that client.
func (c *Conn) inspected() frame.Kinds {
	if c.hasGreeted() && c.config.Profile.Reuse != profile.OneShot && c.Private() {
		return 0
	}
	return c.boundary.Inspect(profile.FromServer)
}

// hasGreeted reports whether the server has sent its greeting, and no session has begun.
func (c *Conn) hasGreeted() bool { return inPool.has(c.state) || c.state == greeted }

// forSession reports whether b must wait for a session that is about to begin: one that has leased the connection, which serves no other.
// That session's client hears everything, a close frame included. Only pings are answered at once.
func (c *Conn) forSession(b []byte) bool {
	if len(b) == 0 || c.config.Profile.Reuse != profile.OneShot {
		return false
	}
	if h, _, err := frame.ParseHeader(b); err == nil && !h.Masked && (h.Opcode == frame.Ping || h.Opcode == frame.Pong) && c.Scanner.AtFrameBoundary() {
		return false // what breaks the protocol is for the session, too
	}
	return c.slot.State() == pool.Leased
}

// dataWhileIdle handles pieces of data frames that come while no session uses the connection, and that the boundary does not inspect.
func (c *Conn) dataWhileIdle(b []byte) {
	if c.config.Profile.Reuse != profile.OneShot && !c.Private() {
		c.fail(unsolicited, nil)
		return
	}
	// The connection serves one session only, which has not begun: what the server says is for its client.
	d := c.addDeferred()
	d.greeting = append(d.greeting, b...)
	if len(d.greeting) > maxGreeting {
		c.fail(cause{pool.Unsolicited, frame.MessageTooBig, tooMuchBefore}, nil)
	}
}

// tooMuchBefore is the reason when the server sends too much before the session.
var tooMuchBefore = fmt.Sprintf("more than %d KiB before the session", maxGreeting>>10)

// control acts on a control frame, except for pings.
func (c *Conn) control(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Pong:
		c.Pong(payload)
	case frame.Close:
		c.closeReceived = true
		if ended.has(c.state) {
			c.stream.CloseWrite()
			return
		}
		code, reason, err := frame.ParseClose(payload)
		if notInPool.has(c.state) && c.boundary.Closed(code).Reason == profile.Busy {
			c.dialing.refusal = errFull
		}
		if err != nil {
			c.fail(*protocolError(err), nil)
			return
		}
		c.fail(cause{pool.Closed, code, fmt.Sprintf("closed by the server: %v %s", code, reason)}, append([]byte{}, payload...))
	}
}

// answer answers a ping, if there is one, at once or after what waits for the server; then at most one answer waits.
func (c *Conn) answer(p *lastPing) {
	found := p.found
	p.found = false
	switch {
	case !found || ended.has(c.state):
	case c.stream.Pending() == 0:
		c.sendControl(frame.Pong, p.payload)
	default:
		c.addDeferred().pong = append(make([]byte, 0, len(p.payload)), p.payload...)
	}
}

// Flushed implements [loop.Handler].
func (c *Conn) Flushed(*loop.Conn) { c.sendPong() }

// sendPong sends the pong that waits, if there is one.
func (c *Conn) sendPong() {
	if c.deferred == nil || c.deferred.pong == nil || ended.has(c.state) {
		return
	}
	c.sendControl(frame.Pong, c.deferred.pong)
	c.deferred.pong = nil
}

// Ended implements [loop.Handler].
func (c *Conn) Ended(_ *loop.Conn, err error) {
	if err == io.EOF {
		err = fmt.Errorf("server ended the connection without a close frame")
	}
	reason := pool.Lost
	if c.silent {
		reason = pool.Silent
	}
	why := cause{reason, frame.GoingAway, err.Error()}
	if machine.Local(err) { // it says nothing about the server
		switch {
		case notInPool.has(c.state):
			c.dialing.refusal = err
		case c.state == idle:
			c.withdraw(why)
			return
		}
	}
	c.fail(why, nil)
}

// MoveTo implements [loop.Mover].
func (c *Conn) MoveTo(to *loop.Loop) {
	c.TakeTimers()
	if !loop.Move(to, c.PutTimers, c.stream) {
		c.PutTimers()
	}
}
