//go:build linux && !portableloop

package loop

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is the epoll driver's part of a connection. The descriptor and secured are static until Close; the loop's goroutine owns
// the rest.
type socket struct {
	fd         int32
	generation int32  // see driver
	interest   uint32 // the events that epoll reports
	file       bool   // the descriptor is not a socket but, for example, a timer
	registered bool   // the descriptor is in the epoll set
	missed     bool   // there may be something to read, which epoll has reported before and does not report again
	entry      int32  // the index of the connection's entry in the outbox, if it has one

	secured *secured // nil without TLS
}

// Socket is a connection taken out of package net, on its way to a loop.
type Socket struct {
	fd      int
	file    bool     // the descriptor is not a socket
	secured *secured // nil without TLS
	early   []byte   // what TLS has decrypted and the handler has not got
}

// Detach takes a connection away from package net and the runtime's poller: a TCP or Unix connection, another descriptor that can
// be polled, or a TLS connection made by package secure whose handshake is complete. Any goroutine may call it, but none
// else may use nc meanwhile. Detach closes nc, except that a TLS connection continues on the loop, and that nc stays open if its
// descriptor could not be duplicated, so that the caller can still say something to the peer.
func Detach(nc net.Conn) (Socket, error) {
	if tc, ok := nc.(*tls.Conn); ok {
		return detachTLS(tc)
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		_ = nc.Close()
		return Socket{}, fmt.Errorf("%T has no descriptor", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		_ = nc.Close()
		return Socket{}, err
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(original uintptr) {
		// The runtime's poller knows only the original, which is closed below.
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return Socket{}, fmt.Errorf("duplicating a descriptor: %w", err)
	}
	_ = nc.Close()
	_, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return Socket{fd: fd, file: errors.Is(err, unix.ENOTSOCK)}, nil
}

// Close closes a socket that was not added to a loop.
func (s Socket) Close() { _ = unix.Close(s.fd) }

// takeSocket makes s the connection's socket.
func (c *Conn) takeSocket(s Socket) {
	c.socket = socket{fd: int32(s.fd), file: s.file, secured: s.secured}
	c.early = append(c.early, s.early...)
}

// start is called once the connection has joined its first loop.
func (c *Conn) start() {
	if c.secured != nil {
		c.startTLS()
	}
}

// register adds the descriptor to the epoll set.
func (c *Conn) register() {
	c.interest = c.wanted()
	event := unix.EpollEvent{Events: c.interest, Fd: c.fd, Pad: c.generation}
	if err := unix.EpollCtl(c.on.driver.epoll, unix.EPOLL_CTL_ADD, int(c.fd), &event); err != nil {
		c.fail(fmt.Errorf("adding a connection to epoll: %w", err))
		return
	}
	c.registered = true
}

// unregister removes the descriptor from the epoll set, if it is in it.
func (c *Conn) unregister() {
	if c.registered {
		c.registered = false
		_ = unix.EpollCtl(c.on.driver.epoll, unix.EPOLL_CTL_DEL, int(c.fd), nil)
	}
}

// wanted returns the events that epoll is to report, edge-triggered: epoll reports each change once, and what is there already
// whenever the set of events is changed. So it need not check a descriptor again after it has reported it.
func (c *Conn) wanted() uint32 {
	events := uint32(unix.EPOLLET)
	if !c.ended {
		events |= unix.EPOLLRDHUP
		if !c.paused || c.gathers {
			events |= unix.EPOLLIN
		}
	}
	if len(c.out) > 0 {
		events |= unix.EPOLLOUT
	}
	return events
}

// interestChanged is called when the events that epoll is to report may have changed.
func (c *Conn) interestChanged() {
	if c.link != nil {
		c.link.Interest()
		return
	}
	if c.secured != nil {
		c.reportEnd()
	}
	events := c.wanted()
	switch {
	case !c.registered:
		if events&unix.EPOLLIN != 0 && !c.closed { // handle has unregistered it, and reading is resumed
			c.register()
		}
	case events != c.interest || c.missed && events&unix.EPOLLIN != 0:
		c.interest = events
		c.missed = false
		event := unix.EpollEvent{Events: events, Fd: c.fd, Pad: c.generation}
		_ = unix.EpollCtl(c.on.driver.epoll, unix.EPOLL_CTL_MOD, int(c.fd), &event)
	}
}

// handle acts on what epoll reported.
func (c *Conn) handle(events uint32) {
	if events&unix.EPOLLOUT != 0 && len(c.out) > 0 {
		c.flush()
	}
	const broken = unix.EPOLLERR | unix.EPOLLHUP
	switch {
	case c.closed:
	case events&(unix.EPOLLIN|unix.EPOLLRDHUP|broken) != 0 && !c.paused && !c.ended:
		c.read(events&(unix.EPOLLRDHUP|broken) != 0)
		return
	case events&unix.EPOLLIN != 0 && c.gathers && !c.ended && events&broken == 0:
		c.readAhead(events&unix.EPOLLRDHUP != 0)
	}
	switch {
	case c.closed:
	case events&unix.EPOLLRDHUP != 0 && !c.ended && events&broken == 0:
		c.missed = true
		if !c.paused { // since readAhead
			c.interestChanged()
		} else if h, ok := As[EndingHandler](c.handler); ok {
			h.Ending(c)
		}
	case events&broken != 0:
		c.unregister() // epoll has nothing more to report
		if c.paused && !c.ended && events&unix.EPOLLERR == 0 {
			return // both sides have ended in order: the handler gets what is unread, and the end, when it resumes reading
		}
		c.fail(c.socketError()) // the handler does not read, so it might not notice otherwise
	}
}

// read reads what has arrived, at most readSize bytes, and presents it to the handler. A read that does not fill the buffer
// has emptied the socket, unless the stream ends there (ending), which epoll does not report a second time.
func (c *Conn) read(ending bool) {
	if len(c.early) > 0 { // reading was resumed in this batch of events: what came early is presented first
		c.missed = true
		return
	}
	if c.secured != nil {
		c.readTLS(ending, readSize)
		return
	}
	buf := c.on.driver.buffer
	n, errno := c.receiveTo(buf[MaxHeld:])
	switch {
	case errno == unix.EAGAIN:
	case errno != 0:
		c.failed = true
		c.endLater(errno)
	case n == 0:
		c.endLater(cmp.Or(c.cause, io.EOF))
	default:
		c.missed = ending || n == readSize
		c.deliver(buf, n)
		if c.missed && !c.closed {
			c.interestChanged() // so that epoll reports it again, after the other connections
		}
	}
}

// readAhead reads what has arrived while reading is paused, at most gatherSize bytes. It leaves the end of the stream for later.
func (c *Conn) readAhead(ending bool) {
	if c.secured != nil {
		c.readTLS(ending, gatherSize)
		return
	}
	buf := c.on.driver.buffer[:MaxHeld+gatherSize]
	n, errno := c.receiveTo(buf[MaxHeld:])
	switch {
	case errno == unix.EAGAIN:
	case errno != 0:
		c.failed = true
		c.endLater(errno)
	case n > 0:
		c.missed = n == gatherSize
		c.deliver(buf, n)
		if c.missed && !c.closed {
			c.interestChanged()
		}
	}
}

// receiveTo reads what has arrived to b, with one system call.
func (c *Conn) receiveTo(b []byte) (int, syscall.Errno) {
	call := uintptr(unix.SYS_RECVFROM)
	if c.file {
		call = unix.SYS_READ // costs more, but works for every kind of file
	}
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// Write sends b, and keeps a copy of what the socket does not take at once; Flushed is called when the socket has taken that,
// too. Short writes are queued, and sent together before the loop waits again.
// If writing fails, Ended is called.
func (c *Conn) Write(b []byte) {
	if len(b) == 0 || c.failed || c.closed {
		return
	}
	if c.link != nil {
		c.link.Write(b)
		return
	}
	if c.secured != nil {
		c.writeTLS(b)
		return
	}
	c.put(b)
}

// put is Write without TLS.
func (c *Conn) put(b []byte) {
	if len(c.out) == 0 && c.enqueue(b) || c.failed {
		return
	}
	if len(c.out) > 0 { // perhaps since enqueue has sent what was queued before
		c.out = append(c.out, b...)
		return
	}
	c.keep(b[c.send(b):])
}

// keep keeps a copy of what the socket did not take. It returns whether there is anything to keep.
func (c *Conn) keep(rest []byte) bool {
	if len(rest) == 0 || c.failed {
		return false
	}
	c.out = append(make([]byte, 0, len(rest)), rest...)
	c.interestChanged()
	return true
}

// send sends as much of b as the socket takes, and returns how many bytes that is. The descriptor must be a socket's.
func (c *Conn) send(b []byte) int {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return 0
		default:
			c.sendFailed(errno)
			return 0
		}
	}
}

// sendFailed is called when sending has failed.
func (c *Conn) sendFailed(errno syscall.Errno) {
	c.missed = true
	c.fail(errno)
}

// flush sends what was kept.
func (c *Conn) flush() {
	n := c.send(c.out)
	if c.failed {
		return
	}
	c.out = c.out[n:]
	if len(c.out) == 0 {
		c.flushed()
	}
}

func (c *Conn) shutdownWrite() {
	if c.secured != nil && !c.shutTLS() {
		return
	}
	c.sendQueued()
	if len(c.out) == 0 { // otherwise flushed calls shutdownWrite again
		_ = unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
}

// socketError returns the error that the socket has noted.
func (c *Conn) socketError() error {
	code, err := unix.GetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return err
	case code != 0:
		return syscall.Errno(code)
	}
	return syscall.ECONNRESET
}

// hasUnread reports whether the socket holds something that has arrived. A reset leaves it there.
func (c *Conn) hasUnread() bool {
	n, err := unix.IoctlGetInt(int(c.fd), unix.SIOCINQ)
	return err == nil && n > 0
}

// closeSocket closes the socket.
func (c *Conn) closeSocket() {
	c.secured = nil
	_ = unix.Close(int(c.fd))
}
