//go:build !linux || portableloop

package loop

import (
	"errors"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// canWaitRaw means that a loop cannot keep its P while it waits.
const canWaitRaw = false

// driver waits for a loop's events on a channel; each connection has goroutines that read and write its socket.
// It is for systems without epoll, and meant to be simple and correct rather than fast.
type driver struct {
	// Static after open.
	loop  *Loop
	woken chan struct{} // of size one

	// Owned by the loop's goroutine.
	conns map[*Conn]struct{}
}

// open makes the driver of loop l ready.
func (d *driver) open(l *Loop, use IOURing) error {
	if use == IOURingOn {
		return errNoRing
	}
	d.loop = l
	d.woken = make(chan struct{}, 1)
	d.conns = make(map[*Conn]struct{})
	return nil
}

// wait returns when something was posted.
func (d *driver) wait() { <-d.woken }

// wake makes wait return. Any goroutine may call it.
func (d *driver) wake() {
	tasks.Wake(d.woken)
}

// dispatch has nothing to do, because events come as posted functions. It returns 1, so that the wake-up counts as work.
func (d *driver) dispatch() int { return 1 }

// handleRest has nothing to do.
func (d *driver) handleRest() {}

// failSending has nothing to do.
func (d *driver) failSending() {}

// sendOutbox has nothing to send, because nothing is queued.
func (d *driver) sendOutbox() bool { return false }

// ring reports that there is no io_uring.
func (d *driver) ring() (bool, error) { return false, errNoRing }

var errNoRing = errors.New("io_uring needs Linux")

// add adds a connection.
func (d *driver) add(c *Conn) { d.conns[c] = struct{}{} }

// remove removes a connection.
func (d *driver) remove(c *Conn) { delete(d.conns, c) }

// each calls f for every connection of the loop.
func (d *driver) each(f func(*Conn)) {
	for c := range d.conns {
		f(c)
	}
}

// shut closes the connections.
func (d *driver) shut() {
	d.each((*Conn).Close)
	d.loop.timers.stop()
}
