//go:build linux && !portableloop

package loop

import (
	"fmt"
	"os"
	"syscall"
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
	ready  int // how many events the last wait returned

	// conns holds the loop's connections by descriptor.
	conns []*Conn
	// generation tells a descriptor's connections apart: an event that was fetched for a closed one must not reach
	// the next that got its number.
	generation int32
	buffer     []byte

	// The epoll descriptor as the runtime's poller sees it, to wait on without blocking a thread.
	file *os.File
	raw  syscall.RawConn
	poll func(uintptr) bool
}

func (d *driver) open(l *Loop) error {
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
		return fmt.Errorf("watching an eventfd: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // makes os.NewFile hand it to the runtime's poller
		_ = unix.Close(waker)
		_ = unix.Close(epoll)
		return fmt.Errorf("making an epoll instance non-blocking: %w", err)
	}
	d.loop, d.epoll, d.waker = l, epoll, waker
	d.buffer = make([]byte, MaxHeld+readSize)
	d.file = os.NewFile(uintptr(epoll), "epoll")
	d.raw, err = d.file.SyscallConn()
	if err != nil {
		d.shut()
		return fmt.Errorf("polling an epoll instance: %w", err)
	}
	d.poll = func(uintptr) bool {
		d.fetch()
		return d.ready > 0
	}
	return nil
}

// wait returns when there are events to dispatch. This is the one place where a loop waits. It waits through the
// runtime's own poller, in which the epoll descriptor is one more pollable file: measured, that costs less CPU than
// blocking a thread in the system call (docs/architecture.md has the table).
func (d *driver) wait() {
	if err := d.raw.Read(d.poll); err != nil {
		panic(fmt.Sprintf("loop: waiting on an epoll instance: %v", err)) // closed only by shut, on this goroutine
	}
}

// fetch asks for events without waiting.
func (d *driver) fetch() {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(d.epoll),
			uintptr(unsafe.Pointer(&d.events[0])), uintptr(len(d.events)), 0, 0, 0)
		switch errno {
		case 0:
			d.ready = int(n)
			return
		case unix.EINTR:
		default:
			panic(fmt.Sprintf("loop: epoll_pwait: %v", errno))
		}
	}
}

func (d *driver) wake() {
	one := uint64(1)
	// It fails only when the counter is full, and then the loop is awake as it is.
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(d.waker), uintptr(unsafe.Pointer(&one)), 8)
}

// dispatch handles the events that were fetched, and returns how many they were.
func (d *driver) dispatch() int {
	for i := range d.events[:d.ready] {
		event := &d.events[i]
		if int(event.Fd) == d.waker {
			var count uint64
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(d.waker), uintptr(unsafe.Pointer(&count)), 8)
			continue
		}
		c := d.conns[event.Fd]
		if c == nil || c.generation != event.Pad {
			continue
		}
		c.handle(event.Events)
	}
	return d.ready
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
	_ = unix.Close(d.waker)
	_ = d.file.Close()
}
