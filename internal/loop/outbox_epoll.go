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
	// mostPutOff is the longest write that is put off. For longer ones a system call of their own matters less than copying them.
	mostPutOff = 4 << 10
)

// outbox has what connections write while their loop handles what it was woken for: short writes are put off until that is done,
// or the outbox full, and then sent with one system call for all of them. It belongs to the loop's goroutine.
//
// What a connection writes stays in order: it has one entry at most, and nothing else is done with its socket before that is
// sent (see Conn.settle).
type outbox struct {
	ring    *ring // nil: nothing is put off
	bytes   []byte
	entries []putOff
	sending []putOff // the entries that are being sent: nothing is put off meanwhile
}

// putOff is a write that was put off: bytes from start to end.
type putOff struct {
	conn       *Conn
	start, end int
}

// openOutbox makes an outbox with a ring if that is asked for.
func openOutbox(use IOURing) (outbox, error) {
	if use == IOURingOff {
		return outbox{}, nil
	}
	b := make([]byte, outboxSize)
	r, err := openRing(outboxEntries, b)
	if err != nil {
		return outbox{}, err
	}
	return outbox{ring: r, bytes: b[:0], entries: make([]putOff, 0, outboxEntries)}, nil
}

// isPutOff tells whether the outbox has something of the connection.
func (c *Conn) isPutOff() bool {
	entries := c.on.driver.outbox.entries
	return int(c.entry) < len(entries) && entries[c.entry].conn == c
}

// putOff puts b in the outbox. It returns false when b has to be sent, or kept, at once.
func (c *Conn) putOff(b []byte) bool {
	d := &c.on.driver
	o := &d.outbox
	if o.ring == nil || c.plain || len(o.sending) > 0 {
		return false
	}
	if len(b) > mostPutOff {
		c.settle()
		return false
	}
	if c.isPutOff() {
		last := int(c.entry) == len(o.entries)-1
		if e := &o.entries[c.entry]; last && e.end-e.start+len(b) <= mostPutOff && len(o.bytes)+len(b) <= outboxSize {
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
	o.entries = append(o.entries, putOff{conn: c, start: start, end: len(o.bytes)})
	return true
}

// settle sends what the outbox has of the connection. It must be called before anything is done with the socket that has to
// come after what was written; before its descriptor is closed above all, since the number may be another connection's next.
func (c *Conn) settle() {
	if c.isPutOff() {
		c.on.driver.sendOutbox()
	}
}

// sendOutbox sends what was put off. It returns whether there was anything.
func (d *driver) sendOutbox() bool {
	o := &d.outbox
	if len(o.entries) == 0 {
		return false
	}
	o.sending, o.entries = o.entries, o.entries[:0]
	if len(o.sending) == 1 {
		o.sendDirectly(0)
	} else {
		o.sendTogether()
	}
	clear(o.sending)
	o.sending, o.bytes = nil, o.bytes[:0]
	return true
}

// sendDirectly sends the entries from number first on with a system call for each.
func (o *outbox) sendDirectly(first int) {
	for _, e := range o.sending[first:] {
		b := o.bytes[e.start:e.end]
		e.conn.keepLate(b[e.conn.send(b):])
	}
}

// sendTogether sends all entries with one system call.
func (o *outbox) sendTogether() {
	for i := range o.sending {
		e := &o.sending[i]
		o.ring.addSend(e.conn.fd, o.bytes[e.start:e.end], uint64(i))
	}
	left := o.ring.submit()
	o.ring.short(o.fellShort)
	o.sendDirectly(len(o.sending) - left)
}

// fellShort acts on a send of which the socket did not take all.
func (o *outbox) fellShort(entry uint64, sent int, errno unix.Errno) {
	e := &o.sending[entry]
	if errno != 0 && !errors.Is(errno, unix.EAGAIN) && !errors.Is(errno, unix.EINTR) {
		e.conn.sendFailed(errno)
		return
	}
	e.conn.keepLate(o.bytes[e.start+sent : e.end])
}

// keepLate is keep for a write that was put off: who wrote has to be told.
func (c *Conn) keepLate(rest []byte) {
	if !c.keep(rest) {
		return
	}
	if w, ok := c.handler.(StallHandler); ok {
		l := c.on
		current, handler := l.current, l.handler
		l.Handling(c)
		w.Stalled(c)
		l.current, l.handler = current, handler
	}
}

// dropSending ends the connections whose output was being sent when a handler panicked: nobody knows what of it was.
func (d *driver) dropSending() {
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

var errPanicked = errors.New("an internal error in the midst of sending")

// close must be called when there is no connection left.
func (o *outbox) close() {
	if o.ring != nil {
		o.ring.close()
	}
}

// ring tells whether there is a ring, and if not, why not where that was to be tried.
func (d *driver) ring() (bool, error) { return d.outbox.ring != nil, d.refused }
