//go:build linux && !portableloop

package loop

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// driver waits for a loop's sockets with epoll, edge-triggered.
type driver struct {
	// Static after open. Any goroutine may call wake, which uses only waker, and ring.
	loop      *Loop
	epoll     int
	waker     int   // an eventfd that other goroutines write to
	raw       bool  // the driver may wait without telling the scheduler
	ringError error // why there is no ring although one was asked for

	// Owned by the loop's goroutine.
	events        [256]unix.EpollEvent
	ready         int     // how many events the last wait returned
	next          int     // the index of the next one to be handled
	silentWakeups int     // wake-ups since the last event of a connection
	conns         []*Conn // the loop's connections by descriptor
	// generation is that of the connection that came last. It distinguishes connections with the same descriptor: an event that was
	// fetched for a closed one must not reach its successor.
	generation int32
	buffer     []byte // what is read, behind a headroom of MaxHeld bytes
	outbox     outbox
	// For TLS connections; nil as long as there are none.
	sealed   []byte   // memory for what is encrypted
	partials [][]byte // memory for beginnings of records (see keepPartial)
	opened   []byte   // what crypto/tls has decrypted, behind the same headroom as in buffer
}

// open makes the driver of loop l ready.
func (d *driver) open(l *Loop, use IOURing) (err error) {
	if d.outbox, err = openOutbox(use); err != nil {
		if use != IOURingAuto {
			return err
		}
		d.ringError = err
	}
	defer func() {
		if err != nil {
			d.outbox.close()
		}
	}()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("creating an epoll instance: %w", err)
	}
	waker, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return fmt.Errorf("creating an eventfd: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(waker)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, waker, &event); err != nil {
		_ = unix.Close(waker)
		_ = unix.Close(epoll)
		return fmt.Errorf("adding an eventfd to epoll: %w", err)
	}
	d.loop, d.epoll, d.waker, d.silentWakeups, d.raw = l, epoll, waker, silentAfter, l.group.raw
	d.buffer = make([]byte, MaxHeld+readSize)
	return nil
}

// canWaitRaw means that a loop can keep its P while it waits.
const canWaitRaw = true

// silentAfter is a number of wake-ups: after silentAfter wake-ups without a socket event, the loop hands its P back when it
// waits. One wake-up is not enough, because the scheduler's signal causes one every 10 ms. And handing a P back is not free: the
// scheduler's monitor thread takes it away, and then checks every 20 us for a millisecond; at 2,000 round trips a second that cost
// a sixth of all processor time.
const silentAfter = 2

// wait returns when there may be events to dispatch. A loop waits nowhere else, and this way was measured to be the cheapest
// (docs/internals/performance.md has the table). While its sockets are busy, a loop blocks in the system call without telling the Go
// scheduler, and keeps its P, so that waking up costs no more than in a program without a scheduler. The group gives the scheduler
// one more P for each awake loop, to make up for the P that sleeps in the system call. After silentAfter wake-ups without a socket
// event, the loop hands its P back and waits in an ordinary system call until there is a socket event again. This happens soon
// after the sockets have become silent, because the scheduler sends a signal to what keeps a P for more than 10 ms, as it does to
// stop all Ps for a garbage collection. (A time-out would do as well, but a timer for each call adds 2 % to the cost of relaying.)
func (d *driver) wait() {
	var n uintptr
	var errno unix.Errno
	forever := -1
	if d.silentWakeups >= silentAfter || !d.raw {
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(d.epoll),
			uintptr(unsafe.Pointer(&d.events[0])), uintptr(len(d.events)), uintptr(forever), 0, 0)
	} else {
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(d.epoll),
			uintptr(unsafe.Pointer(&d.events[0])), uintptr(len(d.events)), uintptr(forever), 0, 0)
	}
	switch errno {
	case 0:
		d.ready = int(n)
	case unix.EINTR:
		d.ready = 0
	default:
		panic(fatal(fmt.Sprintf("loop: epoll_pwait: %v", errno)))
	}
}

// wake makes wait return. Any goroutine may call it.
func (d *driver) wake() {
	one := uint64(1)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(d.waker), uintptr(unsafe.Pointer(&one)), 8)
		if errno != unix.EINTR { // any other error means that the counter is full, and then the loop wakes up anyway
			return
		}
	}
}

// dispatch handles the events that were fetched, and returns how many they were.
func (d *driver) dispatch() int {
	d.silentWakeups++
	d.next = 0
	d.handleRest()
	return d.ready
}

// handleRest handles the events of the batch that have not been handled yet.
func (d *driver) handleRest() {
	for d.next < d.ready {
		event := &d.events[d.next]
		d.next++
		if int(event.Fd) == d.waker {
			var count uint64
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(d.waker), uintptr(unsafe.Pointer(&count)), 8)
			continue
		}
		c := d.conns[event.Fd]
		if c == nil || c.generation != event.Pad {
			continue
		}
		d.silentWakeups = 0
		d.loop.current, d.loop.handler = c, c.handler
		c.handle(event.Events)
	}
}

// add adds a connection.
func (d *driver) add(c *Conn) {
	for int(c.fd) >= len(d.conns) {
		d.conns = append(d.conns, make([]*Conn, max(64, len(d.conns)))...)
	}
	d.generation++
	c.generation = d.generation
	d.conns[c.fd] = c
	c.register()
}

// remove removes a connection.
func (d *driver) remove(c *Conn) {
	c.unregister()
	d.conns[c.fd] = nil
}

// each calls f for every connection of the loop.
func (d *driver) each(f func(*Conn)) {
	for _, c := range d.conns {
		if c != nil {
			f(c)
		}
	}
}

// shut closes the connections, and what the driver itself has open.
func (d *driver) shut() {
	d.each((*Conn).Close)
	d.loop.timers.stop()
	d.outbox.close()
	_ = unix.Close(d.waker)
	_ = unix.Close(d.epoll)
}
