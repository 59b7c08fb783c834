//go:build linux && !portableloop

package loop

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// driver waits for a loop's sockets with epoll, edge-triggered. All of it is owned by the loop's goroutine, except that
// wake may be called from anywhere.
type driver struct {
	loop   *Loop
	epoll  int
	waker  int // an eventfd that other goroutines write to
	events [256]unix.EpollEvent
	ready  int  // how many events the last wait returned
	next   int  // of them, to be handled
	raw    bool // it may wait without telling the scheduler
	silent int  // wake-ups since there was something on a socket

	// conns holds the loop's connections by descriptor.
	conns []*Conn
	// generation tells a descriptor's connections apart: an event that was fetched for a closed one must not reach
	// the next that got its number.
	generation int32
	buffer     []byte

	outbox  outbox
	refused error // why there is no ring

	// For TLS connections: nil as long as there are none.
	opened []byte // what was decrypted, with the same headroom as in buffer
	sealed []byte // for what is being encrypted
}

func (d *driver) open(l *Loop, use IOURing) (err error) {
	if d.outbox, err = openOutbox(use); err != nil {
		if use != IOURingAuto {
			return err
		}
		d.refused = err
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
	d.loop, d.epoll, d.waker, d.silent, d.raw = l, epoll, waker, silentAfter, l.group.raw
	d.buffer = make([]byte, MaxHeld+readSize)
	return nil
}

// canWaitRaw tells that a loop can keep its P while it waits.
const canWaitRaw = true

// silentAfter wake-ups in a row for something else than a socket, a loop's sockets are taken to be silent. One is not enough: it
// is the scheduler's signal every 10 ms. Each time that a P is given back the scheduler's monitor looks after it, and then goes on
// to look every 20 us for a millisecond: at 2,000 round trips a second that was a sixth of all processor time.
const silentAfter = 2

// wait returns when there may be events to dispatch. This is the one place where a loop waits, and measured to be the
// cheapest way (docs/architecture.md has the table): a loop whose sockets are busy blocks in the system call without telling
// the Go scheduler, and keeps its P, so that waking up costs no more than in a program without a scheduler. The group gives
// the scheduler another P for each loop, so that nobody misses the one that sleeps. A loop that was woken for something else
// than a socket several times in a row gives its P back, and waits in the ordinary way until there is something on a socket again.
// That is soon after sockets have become silent: the scheduler interrupts what seems to compute for more than 10 ms with a signal,
// as it does when it has to stop all Ps for a collection of garbage. (A time-out would do as well, but setting a timer for each call
// costs 2 % of what relaying does.)
func (d *driver) wait() {
	var n uintptr
	var errno unix.Errno
	forever := -1
	if d.silent >= silentAfter || !d.raw {
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
		panic(broken(fmt.Sprintf("loop: epoll_pwait: %v", errno)))
	}
}

func (d *driver) wake() {
	one := uint64(1)
	// It fails only when the counter is full, and then the loop is awake as it is.
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(d.waker), uintptr(unsafe.Pointer(&one)), 8)
}

// dispatch handles the events that were fetched, and returns how many they were.
func (d *driver) dispatch() int {
	d.silent++
	d.next = 0
	d.handleRest()
	return d.ready
}

// handleRest handles the events of the batch from number next on.
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
		d.silent = 0
		d.loop.current, d.loop.handler = c, c.handler
		c.handle(event.Events)
	}
}

// each calls f for every connection of the loop.
func (d *driver) each(f func(*Conn)) {
	for _, c := range d.conns {
		if c != nil {
			f(c)
		}
	}
}

func (d *driver) shut() {
	d.each((*Conn).Close)
	d.loop.timers.stop()
	d.outbox.close()
	_ = unix.Close(d.waker)
	_ = unix.Close(d.epoll)
}
