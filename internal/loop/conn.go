package loop

import (
	"errors"
	"sync/atomic"
)

// ErrStopped is returned when a connection is given to a loop that has been stopped.
var ErrStopped = errors.New("event loop stopped")

// Conn is a connection on a loop. Its methods may be called from the goroutine of its loop only, except Post.
type Conn struct {
	// home is the loop that owns the connection, for other goroutines that want to post to it. The loop itself uses on.
	home atomic.Pointer[Loop]

	// Owned by the loop's goroutine.
	on      *Loop
	handler Handler
	early   []byte // received before the connection came to the loop
	held    []byte // left unconsumed by the handler, at most MaxHeld bytes
	out     []byte // written by the handler, not yet taken by the socket
	paused  bool   // reading is paused
	ended   bool   // Ended was, or is about to be, called: nothing more to read
	failed  bool   // writing makes no sense any more
	finish  bool   // shut down the writing side once out is written
	closed  bool

	socket // the driver's part
}

// Post has f called on the loop that owns the connection by then. Any goroutine may call it. It returns false when that
// loop has been stopped.
func (c *Conn) Post(f func()) bool {
	l := c.home.Load()
	return l.Post(func() {
		if c.home.Load() != l { // moved in the meantime
			c.Post(f)
			return
		}
		f()
	})
}

// Loop returns the loop that owns the connection.
func (c *Conn) Loop() *Loop { return c.on }

// SetHandler makes h the receiver of the connection's events from now on.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// Pending returns how many bytes were written that the socket has not taken yet. Whoever copies from another connection
// stops reading that one (Pause) until Flushed is called.
func (c *Conn) Pending() int { return len(c.out) }

// Held returns how many received bytes the handler has left unconsumed.
func (c *Conn) Held() int { return len(c.held) }

// Ended tells whether nothing more can be received.
func (c *Conn) Ended() bool { return c.ended }

// Closed tells whether Close was called.
func (c *Conn) Closed() bool { return c.closed }

// Pause stops reading: the peer is slowed down by TCP's flow control.
func (c *Conn) Pause() {
	if !c.paused {
		c.paused = true
		c.interestChanged()
	}
}

// Resume reads again after Pause.
func (c *Conn) Resume() {
	if !c.paused {
		return
	}
	c.paused = false
	if len(c.early) > 0 {
		c.deliverEarlyLater()
	}
	c.interestChanged()
}

// CloseWrite ends the stream towards the peer (TCP's FIN) once everything written before is on its way.
func (c *Conn) CloseWrite() {
	if c.finish || c.closed {
		return
	}
	c.finish = true
	if len(c.out) == 0 && !c.failed {
		c.shutdownWrite()
	}
}

// Move takes the connections, which must be on the same loop, to another one, and calls moved there once all of them
// have arrived. Nothing of them is handled in between. It returns false, and leaves all as it was, when the other loop
// has been stopped. It must not be called while one of their events is being handled: use Later or Post.
func Move(to *Loop, moved func(), conns ...*Conn) bool {
	from := conns[0].on
	if from == to {
		moved()
		return true
	}
	for _, c := range conns {
		c.leave()
	}
	ok := to.Post(func() {
		for _, c := range conns {
			c.join(to)
		}
		moved()
	})
	if !ok {
		for _, c := range conns {
			c.join(from)
		}
		return false
	}
	// Only now, so that what others post to the new home comes after the function above.
	for _, c := range conns {
		c.home.Store(to)
	}
	return true
}

// deliver hands n bytes to the handler that were read to buf behind a headroom of MaxHeld bytes, together with those
// that it did not consume the last time.
func (c *Conn) deliver(buf []byte, n int) {
	start := MaxHeld - len(c.held)
	copy(buf[start:MaxHeld], c.held)
	c.held = c.held[:0]
	c.receive(buf[start : MaxHeld+n])
}

func (c *Conn) receive(b []byte) {
	consumed := c.handler.Received(c, b)
	if rest := b[consumed:]; len(rest) > 0 {
		if len(rest) > MaxHeld {
			panic("loop: handler left more than MaxHeld bytes")
		}
		c.held = append(c.held, rest...)
	}
}

// deliverEarlyLater presents what was received before the connection came to the loop.
func (c *Conn) deliverEarlyLater() {
	c.on.Later(func() {
		if len(c.early) == 0 || c.paused || c.closed {
			return
		}
		b := c.early
		c.early = nil
		c.receive(b)
		c.interestChanged()
	})
}

// endLater reports the end of what can be received, once.
func (c *Conn) endLater(err error) {
	if c.ended {
		return
	}
	c.ended = true
	c.interestChanged()
	c.on.Later(func() {
		if !c.closed {
			c.handler.Ended(c, err)
		}
	})
}

// fail notes that the socket takes no more bytes.
func (c *Conn) fail(err error) {
	c.failed = true
	c.out = nil
	c.endLater(err)
}

// flushed goes on after everything kept has been written.
func (c *Conn) flushed() {
	c.out = nil
	c.interestChanged()
	if c.finish {
		c.shutdownWrite()
	}
	c.handler.Flushed(c)
}
