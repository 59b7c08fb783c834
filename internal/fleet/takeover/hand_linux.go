package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

// tellTimeout is how long it may take to tell the other side why the take-over has ended.
const tellTimeout = time.Second

// Hand hands the sockets to the process at the other end of a connection. When it returns a nil error, that process accepts clients, and
// this one must stop. Otherwise nothing has changed. Hand does not close the connection. The listeners stay open.
func Hand(ctx context.Context, nc *net.UnixConn, o *Offer) (*Successor, error) {
	c := &conn{nc}
	s, err := hand(ctx, c, o)
	if err == nil {
		s.Conn = duplicate(nc)
		return s, nil
	}
	if errors.As(err, new(*RefusedError)) {
		return nil, err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("the new process was not ready in time")
		}
	}
	_ = nc.SetDeadline(time.Now().Add(tellTimeout))
	_ = c.send(&message{Type: refused, Text: err.Error()}, nil)
	return nil, err
}

func hand(ctx context.Context, c *conn, o *Offer) (*Successor, error) {
	stop := c.until(ctx, 0)
	s, err := prepare(c, o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	// From here on, the successor accepts clients. If this process was stopped meanwhile, or is asked to end at this moment, what the
	// successor has said counts nevertheless: both would continue, or the successor would be killed with its sessions.
	defer c.until(ctx, tellTimeout)()
	if err := c.tell(&message{Type: yours}, nil); err != nil {
		return nil, err
	}
	m, err := c.expect(serving, o.Step)
	if err != nil {
		return nil, err
	}
	for _, i := range m.Kept {
		if i >= 0 && i < len(s.Kept) {
			s.Kept[i] = true
		}
	}
	return s, nil
}

// prepare hands the sockets over, and returns when the successor and this process are ready for the succession.
func prepare(c *conn, o *Offer) (*Successor, error) {
	m, err := c.expect(hello, nil)
	if errors.Is(err, errGone) {
		err = errors.New("the other process ended before it asked for the sockets: see its log, or it does not support take-over (version 0.2 or later does)")
	}
	if err != nil {
		return nil, err
	}
	s := &Successor{Process: m.process(), Kept: make([]bool, len(o.Sockets))}
	if err := m.understood(); err != nil {
		return nil, err
	}
	if m.Instance != o.Self.Instance {
		return nil, errors.New("the new process has another state directory: start it with the state-directory and the database of the running one")
	}
	o.Step(s.String() + " asks for the sockets")
	answer := introduction(welcome, &o.Self)
	answer.Sockets = len(o.Sockets)
	if err := c.tell(answer, nil); err != nil {
		return nil, err
	}
	for i := range o.Sockets {
		l := &o.Sockets[i]
		with, ok := l.Listener.(syscall.Conn)
		if !ok {
			return nil, fmt.Errorf("the socket of %s %s cannot be handed over", l.Kind, l.Name)
		}
		if err := c.tell(&message{Type: socket, Kind: l.Kind, Name: l.Name, Foreign: l.Foreign}, with); err != nil {
			return nil, fmt.Errorf("handing over the socket of %s %s: %w", l.Kind, l.Name, err)
		}
	}
	if m, err = c.expect(ready, o.Step); err != nil {
		return nil, err
	}
	if err := o.Prepare(m.Text); err != nil {
		return nil, err
	}
	return s, nil
}

// tell sends a message. If the other side has gone, the error is what it said before that.
func (c *conn) tell(m *message, with syscall.Conn) error {
	err := ended(c.send(m, with))
	if !errors.Is(err, errGone) {
		return err
	}
	for {
		last, file, failed := c.receive()
		if file != nil {
			_ = file.Close()
		}
		switch {
		case failed != nil:
			return err
		case last.Type == refused:
			return &RefusedError{last.Text}
		}
	}
}

// expect returns the next message of the type. Steps before it go to say, if that is not nil, and what is unknown is skipped.
func (c *conn) expect(kind string, say func(string)) (*message, error) {
	known := []string{hello, welcome, socket, ready, yours, serving}
	for {
		m, file, err := c.receive()
		if file != nil {
			_ = file.Close()
		}
		switch {
		case err != nil:
			return nil, ended(err)
		case m.Type == kind:
			return m, nil
		case m.Type == refused:
			return nil, &RefusedError{m.Text}
		case m.Type == step && say != nil:
			say(m.Text)
		case slices.Contains(known, m.Type):
			return nil, fmt.Errorf("the other process sent %q where %q was due", m.Type, kind)
		}
	}
}

// errGone says that the other process has closed the connection without a word: it has most likely ended.
var errGone = errors.New("the other process has ended before it was ready: its log says why")

// ended returns the error of a connection on which the other side has gone.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return errGone
	}
	return err
}

// duplicate returns the connection by another descriptor, so that closing the first one does not end it; a closed one if there is none to be had.
func duplicate(nc *net.UnixConn) net.Conn {
	file, err := nc.File()
	if err == nil {
		defer file.Close()
		var conn net.Conn
		if conn, err = net.FileConn(file); err == nil {
			return conn
		}
	}
	_ = nc.Close()
	return nc
}

// Refuse tells the process at the other end of a connection that nothing is handed over, and why.
func Refuse(nc *net.UnixConn, reason string) {
	_ = nc.SetDeadline(time.Now().Add(tellTimeout))
	_ = (&conn{nc}).send(&message{Type: refused, Text: reason}, nil)
}
