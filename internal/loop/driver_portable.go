//go:build !linux || portableloop

package loop

import "errors"

// canWaitRaw tells that a loop can keep its P while it waits.
const canWaitRaw = false

// driver waits for a loop's events on a channel; the sockets are read and written by goroutines of their connections.
// It is for systems without epoll: simple and right before fast.
type driver struct {
	loop  *Loop
	woken chan struct{} // of size one
	conns map[*Conn]struct{}
}

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

func (d *driver) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// dispatch has nothing to do, since events come as posted functions, but counts as one.
func (d *driver) dispatch() int { return 1 }

// sendOutbox has nothing to send, since nothing is put off.
func (d *driver) sendOutbox() bool { return false }

// ring tells that there is no io_uring.
func (d *driver) ring() (bool, error) { return false, errNoRing }

var errNoRing = errors.New("io_uring is for Linux only")

// each calls f for every connection of the loop.
func (d *driver) each(f func(*Conn)) {
	for c := range d.conns {
		f(c)
	}
}

func (d *driver) shut() {
	d.each((*Conn).Close)
	d.loop.timers.stop()
}
