//go:build !linux || portableloop

package loop

import (
	"cmp"
	"crypto/tls"
	"net"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// socket is the portable driver's part of a connection: one goroutine reads, and another one writes while there is something to
// write. Both end when the connection is closed. While reading is paused, the connection does not notice that its peer has gone.
type socket struct {
	// Static after Add.
	nc      net.Conn
	next    chan struct{} // of size one: signals to the reader that its buffer is free again
	closing chan struct{} // closed by Close

	// Owned by the loop's goroutine.
	arrived   []byte // the reader's buffer: a headroom of MaxHeld bytes, then what was read
	arrival   int    // bytes read but not yet delivered
	readError error  // what ended reading
	writing   bool   // a goroutine is writing out
}

// Socket is a connection on its way to a loop.
type Socket struct{ nc net.Conn }

// Detach prepares a connection for a loop. The handshake of a TLS connection must be complete. Any goroutine may call it.
func Detach(nc net.Conn) (Socket, error) {
	secure.Unfollow(nc)
	return Socket{nc: nc}, nil
}

// Close closes a socket that was not added to a loop.
func (s Socket) Close() { _ = under(s.nc).Close() }

// takeSocket makes s the connection's socket.
func (c *Conn) takeSocket(s Socket) {
	c.socket = socket{nc: s.nc, next: make(chan struct{}, 1), closing: make(chan struct{})}
}

// start is called once the connection has joined its first loop.
func (c *Conn) start() { go c.readAll() }

// readAll is the reading goroutine. It reads once, leaves its buffer to the loop, waits until that has returned it, and begins
// again.
func (c *Conn) readAll() {
	buf := make([]byte, MaxHeld+readSize/4)
	for {
		n, err := c.nc.Read(buf[MaxHeld:])
		if err != nil {
			err = streamError(err)
		}
		ok := c.Post(func() {
			c.arrived, c.arrival, c.readError = buf, n, err
			c.deliverArrived()
		})
		if !ok || err != nil {
			return
		}
		select {
		case <-c.next:
		case <-c.closing:
			return
		}
	}
}

// deliverArrived presents what the reader has read, unless reading is paused, and lets the reader continue.
func (c *Conn) deliverArrived() {
	if c.gathers && !c.ended && c.arrival > 0 {
		n := c.arrival
		c.arrival = 0
		c.deliver(c.arrived, n)
		c.next <- struct{}{}
		return
	}
	if c.paused || c.ended || len(c.early) > 0 { // what came early is presented first; deliverArrived is called again after it
		return
	}
	if n := c.arrival; n > 0 {
		c.arrival = 0
		c.deliver(c.arrived, n)
		c.next <- struct{}{}
	}
	if c.readError != nil && !c.paused && len(c.early) == 0 { // TLS may return the last bytes and the end together
		c.endLater(cmp.Or(c.cause, c.readError))
	}
}

// interestChanged is called when reading may have been resumed, perhaps in the middle of an event.
func (c *Conn) interestChanged() {
	if c.link != nil {
		c.link.Interest()
		return
	}
	if (c.arrival > 0 || c.readError != nil) && (!c.paused || c.gathers) && !c.ended {
		c.later(c.deliverArrived)
	}
}

// Write sends b, and keeps a copy until it is sent; Flushed is called then. If writing fails, Ended is called.
func (c *Conn) Write(b []byte) {
	if len(b) == 0 || c.failed || c.closed {
		return
	}
	if c.link != nil {
		c.link.Write(b)
		return
	}
	c.out = append(c.out, b...)
	if !c.writing {
		c.startWriting()
	}
}

// hasUnread reports whether the reader has read something that was not delivered.
func (c *Conn) hasUnread() bool { return c.arrival > 0 }

// sendQueued has nothing to do, because nothing is queued.
func (c *Conn) sendQueued() {}

// startWriting starts a goroutine that writes what is kept, and ends when that is done.
func (c *Conn) startWriting() {
	c.writing = true
	chunk := c.out
	go func() {
		_, err := c.nc.Write(chunk)
		c.Post(func() {
			c.writing = false
			switch {
			case c.closed:
			case err != nil:
				c.fail(streamError(err))
			case len(c.out) > len(chunk):
				c.out = c.out[len(chunk):]
				c.startWriting()
			default:
				c.flushed()
			}
		})
	}()
}

func (c *Conn) shutdownWrite() {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		closeWrite(c.nc)
		return
	}
	go func() { // it may have to wait until the socket takes close_notify (RFC 8446, section 6.1), for a bounded time
		_ = tc.CloseWrite()
		closeWrite(under(tc))
	}()
}

// closeWrite ends the stream towards the peer, if the connection can.
func closeWrite(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// under returns the connection that a TLS connection lies on, and any other connection as it is. Closing it never waits.
func under(nc net.Conn) net.Conn {
	tc, ok := nc.(*tls.Conn)
	if !ok {
		return nc
	}
	if line, ok := tc.NetConn().(*secure.Line); ok {
		return line.Conn
	}
	return tc.NetConn()
}

// closeSocket closes the socket, and ends the goroutines.
func (c *Conn) closeSocket() {
	close(c.closing)
	_ = under(c.nc).Close()
}
