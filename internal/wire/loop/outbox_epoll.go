//go:build linux && !portableloop

package loop

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// outboxSize is how many bytes an outbox holds, and outboxEntries for how many writes.
	outboxSize    = 64 << 10
	outboxEntries = 64
	// maxBatched is the size in bytes of the longest write that is queued. For a longer one, its own system call costs less
	// than a copy.
	maxBatched = 4 << 10
)

// outbox is a queue of short writes. What connections write while their loop handles a batch of events is queued, and sent after the batch, or when the
// outbox is full: with io_uring all of it by one system call, otherwise that of each connection by one, however many writes it was.
//
// What a connection writes stays in order: it has at most one entry, which is sent before anything else is done with its
// socket (see Conn.sendQueued).
type outbox struct {
	ring *ring // static; nil without io_uring

	// Owned by the loop's goroutine.
	bytes   []byte
	entries []queuedWrite
	sending []queuedWrite // the entries that are being sent; nothing is queued meanwhile
}

// queuedWrite is an entry of an outbox: a part of its bytes.
type queuedWrite struct {
	conn       *Conn
	start, end int
	kept       bool // the socket has not taken all of it
}

// openOutbox returns an outbox, with a ring if use asks for one.
func openOutbox(use IOURing) (outbox, error) {
	b := make([]byte, outboxSize)
	o := outbox{bytes: b[:0], entries: make([]queuedWrite, 0, outboxEntries)}
	if use == IOURingOff {
		return o, nil
	}
	var err error
	o.ring, err = openRing(outboxEntries, b)
	return o, err
}

// isQueued reports whether the connection has an entry in the outbox.
func (c *Conn) isQueued() bool {
	entries := c.on.driver.outbox.entries
	return int(c.entry) < len(entries) && entries[c.entry].conn == c
}

// enqueue adds b to the outbox. It returns false if the caller has to send or keep b itself.
func (c *Conn) enqueue(b []byte) bool {
	d := &c.on.driver
	o := &d.outbox
	if c.file || len(o.sending) > 0 {
		return false
	}
	if len(b) > maxBatched {
		c.sendQueued()
		return false
	}
	if c.isQueued() {
		last := int(c.entry) == len(o.entries)-1
		if e := &o.entries[c.entry]; last && e.end-e.start+len(b) <= maxBatched && len(o.bytes)+len(b) <= outboxSize {
			o.bytes = append(o.bytes, b...)
			e.end += len(b)
			return true
		}
		d.sendOutbox()
		if len(c.out) > 0 || c.failed {
			return false
		}
	} else if len(o.entries) == outboxEntries || len(o.bytes)+len(b) > outboxSize {
		d.sendOutbox()
	}
	c.entry = int32(len(o.entries))
	start := len(o.bytes)
	o.bytes = append(o.bytes, b...)
	o.entries = append(o.entries, queuedWrite{conn: c, start: start, end: len(o.bytes)})
	return true
}

// sendQueued sends what the connection has in the outbox. It must be called before anything is done with the socket that has
// to come after what was written. Above all it must be called before the descriptor is closed, because another connection may get
// the same one.
func (c *Conn) sendQueued() {
	if c.isQueued() {
		c.on.driver.sendOutbox()
	}
}

// sendOutbox sends what is queued. It returns whether there was anything.
func (d *driver) sendOutbox() bool {
	o := &d.outbox
	if len(o.entries) == 0 {
		return false
	}
	o.sending, o.entries = o.entries, o.entries[:0]
	if o.ring == nil || len(o.sending) == 1 {
		o.sendDirectly(0)
	} else {
		o.sendTogether()
	}
	o.tellStalled()
	clear(o.sending)
	o.sending, o.bytes = nil, o.bytes[:0]
	return true
}

// sendDirectly sends each entry from the index first on with its own system call.
func (o *outbox) sendDirectly(first int) {
	for i := first; i < len(o.sending); i++ {
		e := &o.sending[i]
		b := o.bytes[e.start:e.end]
		e.kept = e.conn.keep(b[e.conn.send(b):])
	}
}

// sendTogether sends all entries with one system call.
func (o *outbox) sendTogether() {
	for i := range o.sending {
		e := &o.sending[i]
		o.ring.addSend(e.conn.fd, o.bytes[e.start:e.end], uint64(i))
	}
	left := o.ring.submit()
	o.ring.incomplete(o.incomplete)
	o.sendDirectly(len(o.sending) - left)
}

// incomplete is called for a send of which the socket has not taken everything.
func (o *outbox) incomplete(entry uint64, sent int, errno unix.Errno) {
	e := &o.sending[entry]
	if errno != 0 && !errors.Is(errno, unix.EAGAIN) && !errors.Is(errno, unix.EINTR) {
		e.conn.sendFailed(errno)
		return
	}
	e.kept = e.conn.keep(o.bytes[e.start+sent : e.end])
}

// tellStalled tells handlers that their sockets are full, which they could not see when they wrote. By now everything has been sent or kept, so that what
// they write comes behind it.
func (o *outbox) tellStalled() {
	for i := range o.sending {
		c := o.sending[i].conn
		if !o.sending[i].kept || c.closed {
			continue
		}
		if w, ok := As[StallHandler](c.handler); ok {
			l := c.on
			current, handler := l.current, l.handler
			l.Handling(c)
			w.Stalled(c)
			l.current, l.handler = current, handler
		}
	}
}

// failSending fails the connections whose entries were being sent when a handler panicked: not all have heard that their sockets are full.
func (d *driver) failSending() {
	o := &d.outbox
	for _, e := range o.sending {
		if c := e.conn; c != nil && !c.closed {
			c.Fail(errPanicked)
		}
	}
	clear(o.sending)
	if o.sending != nil {
		o.sending, o.bytes = nil, o.bytes[:0]
	}
}

var errPanicked = errors.New("internal error while sending")

// close closes the ring. No connection may be left.
func (o *outbox) close() {
	if o.ring != nil {
		o.ring.close()
	}
}

// ring reports whether there is a ring, and if not although one was asked for, why.
func (d *driver) ring() (bool, error) { return d.outbox.ring != nil, d.ringError }
