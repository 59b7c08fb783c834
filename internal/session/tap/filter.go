package tap

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// clientFilter looks at what a tapped session's client sends before the session does.
type clientFilter struct {
	loop.Filter
	tapped *Tapped
	side   side
}

// Received implements [loop.Handler].
func (f *clientFilter) Received(c *loop.Conn, b []byte) int {
	t := f.tapped
	if !t.session.Scans() {
		return f.Filter.Received(c, b)
	}
	f.side.look(b, t.audience.text)
	if t.session.Drops() {
		f.side.drop()
	}
	n := f.Filter.Received(c, b)
	f.side.consumed(n - c.Kept())
	if t.forgotten {
		return n
	}
	if t.session.Drops() {
		t.flush()
		f.side.drop()
	}
	f.side.flushAll(&t.audience, fromClient)
	return n
}

// Sent hears of the frames that the proxy itself sends the client.
func (f *clientFilter) Sent(op frame.Opcode, payload []byte) {
	f.tapped.flush()
	f.tapped.audience.sent(fromClient, op, payload)
}

// backendFilter looks at what a backend sends to a tapped session, and afterwards until the connection's fate is known. Then the session may
// continue on another loop, so that the filter has its own audience.
type backendFilter struct {
	loop.Filter
	audience *audience
	tapped   *Tapped      // nil after the lease
	ending   loop.Handler // the session, if its lease has ended in the present event; nil otherwise
	conn     *backend.Conn
	side     side
	began    time.Time // of the reset
	removed  bool
}

// Received implements [loop.Handler].
func (f *backendFilter) Received(c *loop.Conn, b []byte) int {
	f.side.look(b, f.audience.text)
	if f.tapped == nil {
		f.side.drop()
	}
	n := f.Filter.Received(c, b)
	f.side.consumed(n - c.Kept())
	if !f.removed {
		f.side.flushAll(f.audience, fromBackend)
	}
	return n
}

// TakenBack implements [backend.Observer].
func (f *backendFilter) TakenBack(c *backend.Conn) {
	f.tapped.flush()
	own := *f.audience
	f.audience = &own
	for _, t := range own.taps {
		t.follows()
	}
	f.ending = f.Handler
	c.Stream().Loop().Later(func() { f.ending = nil })
	f.Handler, f.tapped = c, nil
	f.side.drop()
}

// Fate implements [backend.Observer].
func (f *backendFilter) Fate(o backend.Outcome, why string) {
	if f.tapped != nil { // a panic has ended the lease
		f.TakenBack(f.conn)
	}
	f.flush()
	e := Event{Event: connectionEvent, What: o.String(), Reason: why, Backend: f.conn.Backend().Name()}
	if o == backend.Resetting || o == backend.Ended {
		if f.began.IsZero() { // otherwise the reset was sent instead of the client's last message
			f.began = time.Now()
		}
		f.audience.emit(e)
		return
	}
	if !f.began.IsZero() {
		e.Elapsed = time.Since(f.began)
	}
	f.audience.emit(e)
	f.removed = true
	for _, t := range f.audience.taps {
		t.release(nil)
	}
}

// Sent implements [backend.Observer].
func (f *backendFilter) Sent(op frame.Opcode, payload []byte) {
	if f.tapped != nil {
		f.tapped.flush()
	} else {
		f.flush()
	}
	f.audience.sent(fromBackend, op, payload)
}

// flush shows the frames that were handled after the lease.
func (f *backendFilter) flush() {
	f.side.flush(f.audience, fromBackend, f.conn.Scanner.Frames, true)
}

// Retire implements [loop.Retirer].
func (f *backendFilter) Retire(c *loop.Conn) {
	next := f.Handler
	if f.ending != nil { // it may not know that the lease has ended
		next = f.ending
	}
	if r, ok := loop.As[loop.Retirer](next); ok {
		r.Retire(c)
	}
}
