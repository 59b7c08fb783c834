package loop

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
)

// ErrStopped is returned when a connection is given to a loop that has been stopped.
var ErrStopped = errors.New("event loop stopped")

// Conn is a connection on a loop. Only the loop's goroutine may call its methods, except Post and Home.
type Conn struct {
	// home is the loop that owns the connection, or the one that it is on its way to. Any goroutine may load it.
	home atomic.Pointer[Loop]

	// Owned by the loop's goroutine. What every frame needs comes first.
	on        *Loop
	handler   Handler
	socket         // the driver's part
	paused    bool // reading is paused: stopped or throttled
	stopped   bool // Pause was called
	throttled bool // Throttle was called
	gathers   bool // Gather was called, and there is room: reading continues while it is paused
	ended     bool // nothing more is read: Ended was called, or is about to be
	failed    bool // nothing more is written
	halfClose bool // CloseWrite was called: the sending side is shut down once out is empty
	closed    bool
	out       []byte // written by the handler, not yet taken by the socket
	held      []byte // received and left unconsumed by the handler, at most MaxHeld bytes
	early     []byte // received, and presented before anything is read from the socket: see Add, Keep and Gather
	cause     error  // what Ended reports if the connection has failed while there may still be something to read
	link      Link   // static: stands in for the socket; nil if there is one
}

// Add makes the socket a connection of the loop, on whose goroutine it must be called. The bytes in early, which were
// received before, are presented to the handler first; the loop owns them from now on.
func (l *Loop) Add(s Socket, h Handler, early []byte) *Conn {
	c := &Conn{handler: h, early: early}
	c.home.Store(l)
	c.takeSocket(s)
	c.join(l)
	c.start()
	return c
}

// join makes the connection one of loop l.
func (c *Conn) join(l *Loop) {
	c.on = l
	if c.link != nil {
		c.link.Joined()
	} else {
		l.count(1)
		l.driver.add(c)
	}
	if len(c.early) > 0 {
		c.deliverEarlyLater()
	}
}

// leave ends what join has begun.
func (c *Conn) leave() {
	if c.link != nil {
		c.link.Leaving()
		return
	}
	c.sendQueued()
	c.on.driver.remove(c)
	c.on.count(-1)
}

// Post calls f on the loop that owns the connection when f's turn comes, and does not wait for it. Any goroutine may call Post. It
// returns false if that loop has been stopped; f is not called then.
func (c *Conn) Post(f func()) bool {
	l := c.home.Load()
	return l.Post(func() {
		if !c.IsOn(l) { // moved in the meantime
			c.Post(f)
			return
		}
		l.Handling(c)
		f()
	})
}

// IsOn reports whether l owns the connection. It is called on the goroutine of l. It returns false if the connection has left
// for another loop, and also while it is on its way back from there.
func (c *Conn) IsOn(l *Loop) bool { return c.home.Load() == l && c.on == l }

// Loop returns the loop that owns the connection.
func (c *Conn) Loop() *Loop { return c.on }

// Expired implements [Owner] for the connection's timers.
func (c *Conn) Expired(t *Timer) {
	h, _ := As[TimerHandler](c.handler)
	h.Expired(c, t)
}

// Home returns the loop that owns the connection, or will own it once it has arrived there. Any goroutine may call it, but
// only on that loop's is the answer sure to be current.
func (c *Conn) Home() *Loop { return c.home.Load() }

// Handler returns the handler that receives the connection's events.
func (c *Conn) Handler() Handler { return c.handler }

// SetHandler makes h the handler of the connection's events from now on.
func (c *Conn) SetHandler(h Handler) { c.handler = h }

// Pending returns how many of the bytes written the socket has not taken yet. A handler that copies from another connection
// pauses that one until Flushed is called.
func (c *Conn) Pending() int {
	if c.link != nil {
		return c.link.Pending()
	}
	c.sendQueued()
	return len(c.out)
}

// Stalled reports whether Pending is known to be more than 0. It costs less than Pending, because it does not send what the loop
// has queued since it was woken. A handler that calls it implements [StallHandler], to learn if the socket does not take that.
func (c *Conn) Stalled() bool { return len(c.out) > 0 || c.link != nil && c.linkStalled() }

// Held returns how many of the bytes received the handler has left unconsumed.
func (c *Conn) Held() int { return len(c.held) }

// Kept returns how many of the bytes received Keep and Gather have kept.
func (c *Conn) Kept() int { return len(c.early) }

// Ended reports whether nothing more can be received.
func (c *Conn) Ended() bool { return c.ended }

// Closed reports whether Close was called.
func (c *Conn) Closed() bool { return c.closed }

// Paused reports whether reading is paused.
func (c *Conn) Paused() bool { return c.paused }

// Stopped reports whether Pause has paused reading.
func (c *Conn) Stopped() bool { return c.stopped }

// Throttled reports whether Throttle has paused reading.
func (c *Conn) Throttled() bool { return c.throttled }

// Fail ends the connection as if it had failed with err: nothing more is received or written, and the handler's Ended is
// called after the current event.
func (c *Conn) Fail(err error) {
	c.failed = true
	c.out = nil
	c.endLater(err)
}

// Pause stops reading: the peer is slowed down by TCP's flow control.
func (c *Conn) Pause() {
	c.stopped = true
	c.pausesChanged()
}

// Resume reads again after Pause, unless the connection is throttled.
func (c *Conn) Resume() {
	c.stopped = false
	c.pausesChanged()
}

// Throttle is Pause for who limits how much the peer may send: Resume does not end it.
func (c *Conn) Throttle() {
	c.throttled = true
	c.pausesChanged()
}

// Unthrottle reads again after Throttle, unless reading is paused.
func (c *Conn) Unthrottle() {
	c.throttled = false
	c.pausesChanged()
}

// pausesChanged pauses reading, or resumes it.
func (c *Conn) pausesChanged() {
	paused := c.stopped || c.throttled
	if paused == c.paused {
		return
	}
	c.paused = paused
	c.gathers = c.gathers && paused
	if !paused && len(c.early) > 0 {
		c.deliverEarlyLater()
	}
	c.interestChanged()
}

// PauseBefore is Pause for a handler that cannot take all of the bytes it is being presented: see Keep.
func (c *Conn) PauseBefore(rest []byte) {
	c.Keep(rest)
	c.Pause()
}

// Keep keeps rest, which must be the last of the bytes that the handler is being presented, and presents it first when reading is
// resumed. The handler, which pauses reading, returns that it has consumed everything. Held does not count rest.
func (c *Conn) Keep(rest []byte) {
	if again := c.on.again; len(rest) > 0 && len(again) > 0 && &again[len(again)-1] == &rest[len(rest)-1] {
		c.early = rest // it was kept before: its memory is the connection's
		return
	}
	c.early = append(make([]byte, 0, len(rest)), rest...)
}

// Gather keeps what arrives while reading is paused, up to the size of one read, as if the handler had called Keep: the handler, which must be
// a [GatheringHandler], can see in Unread whether the peer has said more. It ends when reading is resumed.
func (c *Conn) Gather() {
	if c.paused && !c.gathers && len(c.early) <= gatherSize {
		c.gathers = true
		c.interestChanged()
	}
}

// gather keeps b, which has arrived while reading was paused.
func (c *Conn) gather(b []byte) {
	c.keepMore(b)
	c.gathered()
}

func (c *Conn) keepMore(b []byte) {
	c.early = append(append(c.early, c.held...), b...) // one of early and held is empty
	c.held = c.held[:0]
	if len(c.early) > gatherSize {
		c.gathers = false
		c.interestChanged()
	}
}

func (c *Conn) gathered() {
	if h, ok := As[GatheringHandler](c.handler); ok {
		h.Gathered(c)
	}
}

// ReportKept calls the handler's Gathered after the event that is being handled, if something is kept and reading is still paused then.
func (c *Conn) ReportKept() {
	c.later(func() {
		if c.paused && len(c.early) > 0 {
			c.gathered()
		}
	})
}

// Unread returns what Keep and Gather have kept. The caller must not change it, nor keep it.
func (c *Conn) Unread() []byte { return c.early }

// CloseWrite ends the stream towards the peer (with a FIN) once everything written before has been sent.
func (c *Conn) CloseWrite() {
	if c.halfClose || c.closed {
		return
	}
	c.halfClose = true
	if c.link != nil {
		c.link.CloseWrite()
	} else if len(c.out) == 0 && !c.failed {
		c.shutdownWrite()
	}
}

// Close closes the connection at once. What was kept is lost, and the peer gets a reset if it has sent something that was
// not read. To close a connection in order, call CloseWrite and wait for Ended first.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.closed, c.ended, c.failed = true, true, true
	c.out, c.early, c.held = nil, nil, nil
	c.leave()
	if c.link != nil {
		c.link.Close()
	} else {
		c.closeSocket()
	}
}

// Move takes the connections, which must be on the same loop, to another one, and calls moved there once all of them
// have arrived. None of their events is handled in between. Closed connections are left out. Their timers are the caller's
// business: it calls [Timer.Take] before and [Timer.Put] after. Move returns false, and changes nothing, if the other loop
// has been stopped. It must not be called while an event of one of the connections is being handled: use Later or Post.
func Move(to *Loop, moved func(), conns ...*Conn) bool {
	from := conns[0].on
	if from == to {
		moved()
		return true
	}
	conns = carriers(conns)
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
	// The new home is stored after arrive was posted, so that whatever others post there runs after it, but before arrive can
	// run, because arrive may move the connections on.
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

// later calls f after the event that is being handled, on the loop that owns the connection then: another function that
// runs after this event may move the connection.
func (c *Conn) later(f func()) {
	l := c.on
	l.Later(func() {
		if !c.IsOn(l) {
			c.Post(f)
			return
		}
		l.Handling(c)
		f()
	})
}

// deliver presents n bytes to the handler, preceded by the bytes that it has left unconsumed. The n bytes are in buf, after a
// headroom of MaxHeld bytes.
func (c *Conn) deliver(buf []byte, n int) {
	if c.paused { // see Gather; or what TLS has just answered was sent with another connection's bytes, whose handler has paused this one
		c.gather(buf[MaxHeld : MaxHeld+n])
		return
	}
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

// deliverEarlyLater presents, after the current event, what was received early.
func (c *Conn) deliverEarlyLater() {
	c.later(func() {
		if len(c.early) == 0 || c.paused || c.closed {
			return
		}
		b := c.early
		c.early = nil
		l := c.on
		l.again = b
		c.receive(b)
		l.again = nil
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
			c.early = nil // nothing is received after the end
			c.handler.Ended(c, err)
		}
	})
}

// fail notes that the socket takes no more bytes. If the peer has ended the connection, reading continues to the end of the
// stream, perhaps once it is resumed: what has arrived, perhaps a close frame, must not be lost only because a write was the
// first to fail, or because the peer has reset the connection behind it.
func (c *Conn) fail(err error) {
	byPeer := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	readsOn := byPeer && !c.ended && (!c.paused || c.canWait())
	c.failed = true
	c.out = nil
	if readsOn {
		c.cause = cmp.Or(c.cause, err)
		c.interestChanged()
		return
	}
	c.endLater(err)
}

// canWait reports whether the end of a connection that is not read can be reported after what is unread, when reading is resumed. It
// cannot if the handler wants to know at once, or if it perhaps resumes reading only when the socket has taken what is kept.
func (c *Conn) canWait() bool {
	if _, ok := As[EndingHandler](c.handler); ok || len(c.out) > 0 {
		return false
	}
	return len(c.early) > 0 || c.hasUnread()
}

// flushed is called when everything kept has been written.
func (c *Conn) flushed() {
	c.out = nil
	c.interestChanged()
	if c.halfClose {
		c.shutdownWrite()
	}
	c.handler.Flushed(c)
}

// streamError makes clear what an error of package tls means, and returns the system's own error without the addresses: they are known, and
// reasons with them would not fit a close frame.
func streamError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("stream cut off within a TLS record: %w", err)
	}
	if number := syscall.Errno(0); errors.As(err, &number) {
		return number
	}
	return err
}
