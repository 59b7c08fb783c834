package speaker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Message is a whole message.
type Message struct {
	Opcode  frame.Opcode // Text or Binary
	Payload []byte
}

// Line is what a session is held over.
type Line interface {
	// Send sends a message.
	Send(m Message) error
	// Receive returns the server's next message, which the caller may keep. The error is [ErrTimeout] if none came in time, a [*CloseError]
	// when the server has closed, and anything else when the line is lost.
	Receive(until time.Time) (Message, error)
}

// ErrTimeout is returned if no message came in time. The line is as it was.
var ErrTimeout = errors.New("no message in time")

// CloseError is a close frame of the server.
type CloseError struct {
	Code   frame.CloseCode
	Reason string
}

// Error implements error.
func (e *CloseError) Error() string {
	if e.Code == frame.NoStatus {
		return "the server closed without a code"
	}
	text := fmt.Sprintf("the server closed with code %v", e.Code)
	if e.Reason != "" {
		text += fmt.Sprintf(" (%.100q)", e.Reason)
	}
	return text
}

// The limits of what a server may send: bytes in a message, and frames in one.
const (
	maxMessage = 4 << 20
	maxFrames  = 10000
)

// Conn is a WebSocket connection to a server. It belongs to one goroutine; any goroutine may call Abort.
type Conn struct {
	// OnPong is called by Receive with the payload of each pong, which it must not keep; nil for nothing. Set it before.
	OnPong func(payload []byte)

	nc       net.Conn
	in       []byte // received and not handled yet
	out      []byte
	message  []byte // of the message under way
	frames   int    // of it
	kind     frame.Opcode
	timeout  time.Duration // of each write
	sentLast bool          // a close frame was sent
	secrets  secret.Sent   // that the server got in the handshake
}

// NewConn returns a connection that has completed its handshake. A message that the server does not take within timeout is an error.
func NewConn(e handshake.Established, timeout time.Duration) *Conn {
	return &Conn{nc: e.Conn, in: e.Early, timeout: timeout, secrets: e.Sent}
}

// Mask returns a text of the server, such as a message, without the secrets that it got in the handshake, which it may have repeated. It must be whole: a
// part of a secret is not found.
func (c *Conn) Mask(text string) string { return c.secrets.Mask(text, false) }

// Masked returns an error of a session without those secrets.
func (c *Conn) Masked(err error) error {
	if failed, ok := errors.AsType[*FailedError](err); ok {
		failed.Said = []byte(c.Mask(string(failed.Said))) // all of it, which is cut where it is shown
	}
	if closed, ok := errors.AsType[*CloseError](err); ok {
		closed.Reason = c.Mask(closed.Reason)
	}
	return c.secrets.Error(err)
}

// Send implements [Line].
func (c *Conn) Send(m Message) error {
	return c.write(frame.AppendMessage(c.out[:0], m.Opcode, true, m.Payload, true))
}

// SendFragment sends the first half of a message, so that the server waits for the rest. Nothing but a close may follow.
func (c *Conn) SendFragment(m Message) error {
	return c.write(frame.AppendMessage(c.out[:0], m.Opcode, false, m.Payload[:len(m.Payload)/2], true))
}

// Ping sends a ping.
func (c *Conn) Ping(payload []byte) error {
	return c.write(frame.AppendControl(c.out[:0], frame.Ping, payload, true))
}

// SendClose sends a close frame, once.
func (c *Conn) SendClose(code frame.CloseCode) error {
	if c.sentLast {
		return nil
	}
	c.sentLast = true
	return c.write(frame.AppendControl(c.out[:0], frame.Close, frame.AppendClosePayload(nil, code, ""), true))
}

func (c *Conn) write(b []byte) error {
	c.out = b[:0]
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.timeout))
	_, err := c.nc.Write(b)
	return err
}

// Receive implements [Line]. It answers pings.
func (c *Conn) Receive(until time.Time) (Message, error) {
	for {
		h, size, err := frame.ParseHeader(c.in)
		switch {
		case err != nil:
			return Message{}, err
		case h.Masked && size > 0:
			return Message{}, frame.ErrMasked
		case h.Length > maxMessage || int64(len(c.message))+h.Length > maxMessage || c.frames > maxFrames:
			return Message{}, frame.ErrMessageSize
		}
		if size == 0 || int64(len(c.in)-size) < h.Length {
			if err := c.read(until); err != nil {
				return Message{}, err
			}
			continue
		}
		payload := c.in[size : size+int(h.Length)]
		c.in = c.in[size+int(h.Length):]
		switch h.Opcode {
		case frame.Ping:
			if err := c.write(frame.AppendControl(c.out[:0], frame.Pong, payload, true)); err != nil {
				return Message{}, err
			}
			continue
		case frame.Pong:
			if c.OnPong != nil {
				c.OnPong(payload)
			}
			continue
		case frame.Close:
			code, reason, err := frame.ParseClose(payload)
			if err != nil {
				return Message{}, err
			}
			return Message{}, &CloseError{code, string(reason)}
		}
		if (h.Opcode == frame.Continuation) != (c.frames > 0) {
			return Message{}, frame.ErrInMessage
		}
		if c.frames == 0 {
			c.kind, c.message = h.Opcode, nil
		}
		c.frames++
		c.message = append(c.message, payload...)
		if h.Fin {
			m := Message{c.kind, c.message}
			c.message, c.frames = nil, 0
			return m, nil
		}
	}
}

// read receives more bytes.
func (c *Conn) read(until time.Time) error {
	_ = c.nc.SetReadDeadline(until)
	if cap(c.in)-len(c.in) < 4<<10 {
		c.in = append(make([]byte, 0, max(16<<10, 2*len(c.in))), c.in...)
	}
	n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	switch {
	case n > 0:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimeout
	}
	return err
}

// Abort makes all that the connection does fail. Any goroutine may call it.
func (c *Conn) Abort() { _ = c.nc.Close() }

// Hang ends the connection without a close frame.
func (c *Conn) Hang() { _ = c.nc.Close() }

// Close says goodbye, waits for the server's close until a time, and ends the connection.
func (c *Conn) Close(code frame.CloseCode, until time.Time) {
	defer c.nc.Close()
	if c.SendClose(code) != nil {
		return
	}
	for {
		if _, err := c.Receive(until); err != nil {
			return
		}
	}
}
