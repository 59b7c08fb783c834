package backend

import (
	"errors"
	"fmt"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// This file is Conn as the handler of its stream, while no session is.

// Received implements [loop.Handler].
func (c *Conn) Received(_ *loop.Conn, b []byte) int {
	pos := 0
	for {
		if c.mode == waiting && c.forSession(b[pos:]) {
			c.stream.PauseBefore(b[pos:])
			return len(b)
		}
		c.Scanner.Watch = frame.Kinds(c.boundary.Watch(profile.FromServer))
		run, err := c.Scanner.Next(b[pos:])
		if c.mode == waiting && run.Data > 0 {
			c.dataWhileIdle(b[pos : pos+run.Data])
		}
		pos += run.Consumed
		if err == nil && run.Watched {
			var n int
			n, err = c.FromServer.Present(&c.boundary, profile.FromServer, &c.Scanner, &run, b[pos:], func(s profile.Step, _ []byte, _ bool) { c.act(s) })
			pos += n
		}
		switch {
		case err != nil && c.mode == retiring:
			c.stream.CloseWrite()
			return len(b)
		case err != nil:
			c.failed(*breach(err))
			return len(b)
		case run.HasControl():
			c.control(run.Control, run.Payload)
		case !run.Watched:
			c.rest(b[pos:])
			if c.mode == waiting && pos < len(b) && !frame.Opcode(b[pos]&0xf).IsControl() {
				c.dataWhileIdle(nil) // the beginning of a header, which a session would take for that of its first answer
			}
			return pos
		}
		if c.stream.Closed() {
			return len(b)
		}
	}
}

// forSession tells whether what the server says at a moment when no session is there must wait for one that is about to
// begin: it has leased the connection, and no other will be on it. So it is to hear everything, a close frame as well; only
// pings are answered meanwhile.
func (c *Conn) forSession(b []byte) bool {
	if len(b) == 0 || c.made.Profile.Reuse != profile.OneShot {
		return false
	}
	if h, _, err := frame.ParseHeader(b); err == nil && !h.Masked && (h.Opcode == frame.Ping || h.Opcode == frame.Pong) && c.Scanner.AtFrameBoundary() {
		return false // what breaks the protocol is for the session as well
	}
	return c.slot.State() == pool.Leased
}

// dataWhileIdle takes pieces of data frames that no session is there for, and that the boundary does not watch.
func (c *Conn) dataWhileIdle(b []byte) {
	if c.made.Profile.Reuse == profile.OneShot {
		// Nobody had the connection before, and only one session will: what the server says belongs to its client.
		if kept := c.keep(); len(kept.greeting)+len(b) <= maxGreeting {
			kept.greeting = append(kept.greeting, b...)
		} else {
			c.lost(retirement{pool.Unsolicited, frame.MessageTooBig, "more than 64 KiB before the session"})
		}
		return
	}
	c.lost(retirement{pool.Unsolicited, frame.PolicyViolation, profile.Unsolicited.String()})
}

// control acts on a control frame.
func (c *Conn) control(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Ping:
		switch {
		case c.mode == retiring:
		case c.stream.Pending() == 0:
			c.sendControl(frame.Pong, payload)
		default: // only the last ping needs an answer (RFC 6455, section 5.5.3), so that one waits at most
			c.keep().pong = append(make([]byte, 0, len(payload)), payload...)
		}
	case frame.Pong:
		c.Pong(payload)
	case frame.Close:
		c.closeReceived = true
		if c.mode == retiring {
			c.stream.CloseWrite()
			return
		}
		code, reason, err := frame.ParseClose(payload)
		if c.mode == greeting && c.boundary.Closed(uint16(code)).Reason == profile.Busy {
			c.dialing.refusal = errFull
		}
		if err != nil {
			c.failed(*breach(err))
			return
		}
		c.failed(retirement{pool.Closed, code, fmt.Sprintf("closed by the server: %v %s", code, reason)})
	}
}

// failed takes the connection out of service, whatever it was doing.
func (c *Conn) failed(why retirement) {
	switch c.mode {
	case greeting:
		if c.dialing.refusal == nil {
			c.dialing.refusal = errors.New(why.text)
		}
		c.close(why)
	case waiting:
		c.lost(why)
	case resetting:
		c.retire(why)
	case retiring:
		c.finish()
	}
}

// Flushed implements [loop.Handler].
func (c *Conn) Flushed(*loop.Conn) { c.sendPong() }

// sendPong sends the pong that waits, if there is one.
func (c *Conn) sendPong() {
	if c.kept == nil || c.kept.pong == nil || c.mode == retiring {
		return
	}
	c.sendControl(frame.Pong, c.kept.pong)
	c.kept.pong = nil
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
	c.failed(retirement{reason, frame.GoingAway, err.Error()})
}

// MoveTo implements [loop.Mover].
func (c *Conn) MoveTo(to *loop.Loop) {
	put := c.TakeTimers()
	loop.Move(to, func() { put(to) }, c.stream)
}
