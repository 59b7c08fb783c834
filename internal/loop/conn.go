package loop

import (
	"errors"
	"sync/atomic"
	"syscall"
)

// ErrStopped is returned when a connection is given to a loop that has been stopped.
var ErrStopped = errors.New("event loop stopped")

// Conn is a connection on a loop. Its methods may be called from the goroutine of its loop only, except Post.
type Conn struct {
	// home is the loop that owns the connection, for other goroutines that want to post to it. The loop itself uses on.
	home atomic.Pointer[Loop]

	// Owned by the loop's goroutine. What every frame needs comes first.
	on      *Loop
	handler Handler
	socket       // the driver's part
	paused  bool // reading is paused
	ended   bool // Ended was, or is about to be, called: nothing more to read
	failed  bool // writing makes no sense any more
	finish  bool // shut down the writing side once out is written
	closed  bool
	out     []byte // written by the handler, not yet taken by the socket
	held    []byte // left unconsumed by the handler, at most MaxHeld bytes
	early   []byte // received, to be presented before what is in the socket: see Add and PauseBefore
	cause   error  // why it failed, for Ended, when what was received before is still to be read
}

// Post has f called on the loop that owns the connection by then. Any goroutine may call it. It returns false when that
// loop has been stopped.
func (c *Conn) Post(f func()) bool {
	l := c.home.Load()
	return l.Post(func() {
		if !c.isOn(l) { // moved in the meantime
			c.Post(f)
			return
		}
		l.Handling(c)
		f()
	})
}

// isOn tells, on the goroutine of loop l, whether l owns the connection. It does not when the connection has gone to
// another loop, nor when it is only on its way back from there.
func (c *Conn) isOn(l *Loop) bool { return c.home.Load() == l && c.on == l }

// Loop returns the loop that owns the connection.
func (c *Conn) Loop() *Loop { return c.on }

// Expired implements [Owner] for the connection's timers.
func (c *Conn) Expired(t *Timer) { c.handler.(TimerHandler).Expired(c, t) }

// Home returns the loop that owns the connection, or will when it has arrived there. Any goroutine may call it; on all but
// that loop's, the answer may be old.
func (c *Conn) Home() *Loop { return c.home.Load() }

// Handler returns the receiver of the connection's events.
func (c *Conn) Handler() Handler { return c.handler }

// SetHandler makes h the receiver of the connection's events from now on.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// Pending returns how many bytes were written that the socket has not taken yet. Whoever copies from another connection
// stops reading that one (Pause) until Flushed is called.
func (c *Conn) Pending() int {
	c.settle()
	return len(c.out)
}

// Stalled tells whether Pending is more than 0, as far as is known: what was written since the loop was woken may not have been
// sent yet. That is cheaper, for a handler that implements [StallHandler] and so gets to know the rest.
func (c *Conn) Stalled() bool { return len(c.out) > 0 }

// Held returns how many received bytes the handler has left unconsumed.
func (c *Conn) Held() int { return len(c.held) }

// Ended tells whether nothing more can be received.
func (c *Conn) Ended() bool { return c.ended }

// Closed tells whether Close was called.
func (c *Conn) Closed() bool { return c.closed }

// Paused tells whether reading is paused.
func (c *Conn) Paused() bool { return c.paused }

// Fail ends the connection as if it had failed with err: the handler's Ended is called after the present event, and nothing
// is received or written any more.
func (c *Conn) Fail(err error) {
	c.failed = true
	c.out = nil
	c.endLater(err)
}

// Pause stops reading: the peer is slowed down by TCP's flow control.
func (c *Conn) Pause() {
	if !c.paused {
		c.paused = true
		c.interestChanged()
	}
}

// PauseBefore is Pause for a handler that must not even take all of the bytes that it is being presented: rest, which must be
// their end, is kept and presented first when reading is resumed. The handler returns that it has consumed all. It is not
// counted by Held.
func (c *Conn) PauseBefore(rest []byte) {
	c.early = append(make([]byte, 0, len(rest)), rest...)
	c.Pause()
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
// have arrived. Nothing of them is handled in between; those that have been closed are passed over. It returns false,
// and leaves all as it was, when the other loop has been stopped. It must not be called while one of their events is
// being handled: use Later or Post.
func Move(to *Loop, moved func(), conns ...*Conn) bool {
	from := conns[0].on
	if from == to {
		moved()
		return true
	}
	each := func(f func(c *Conn)) {
		for _, c := range conns {
			if !c.closed {
				f(c)
			}
		}
	}
	each((*Conn).leave)
	arrive := func() {
		to.Handling(conns[0])
		each(func(c *Conn) { c.join(to) })
		moved()
	}
	// The new home is named neither before the function above is posted, so that what others post there comes after it,
	// nor after it may have run, since it may move them on.
	ok := to.post(arrive, func() {
		for _, c := range conns {
			c.home.Store(to)
		}
	})
	if !ok {
		each(func(c *Conn) { c.join(from) })
	}
	return ok
}

// later has f called after the event that is being handled, on the loop that owns the connection by then: what else was
// put off in this event may move it.
func (c *Conn) later(f func()) {
	l := c.on
	l.Later(func() {
		if !c.isOn(l) {
			c.Post(f)
			return
		}
		l.Handling(c)
		f()
	})
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
	c.later(func() {
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
	c.later(func() {
		if !c.closed {
			c.handler.Ended(c, err)
		}
	})
}

// fail notes that the socket takes no more bytes. When it was the peer who ended the connection, and somebody reads,
// reading goes on to the end that must come: what was received before, a close frame perhaps, is not lost by the
// accident that a write was the first to notice.
func (c *Conn) fail(err error) {
	c.failed = true
	c.out = nil
	if !c.paused && !c.ended && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		c.cause = err
		c.interestChanged()
		return
	}
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
