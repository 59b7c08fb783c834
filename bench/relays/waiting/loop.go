//go:build linux

package main

import (
	"fmt"
	"log"
	"sync/atomic"
	"syscall"
)

const (
	bufferSize = 64 << 10
	batch      = 256
	maxFD      = 1 << 16
)

// side is one socket of a session; a session is two, each the other's peer.
// All fields are owned by the loop, once add has registered the pair.
type side struct {
	peer     *side
	rest     []byte // bytes for this socket that it did not take yet
	fd       int
	interest uint32 // what epoll watches; 0 means not registered
	blocked  bool   // not writable yet (new, or full): its peer is not read
	ended    bool   // it sent its FIN
	dead     bool
}

// sides finds the side of a descriptor. The acceptor stores, the loops load.
var sides [maxFD]atomic.Pointer[side]

// loop owns an epoll descriptor, the sessions on it and one buffer for all.
type loop struct {
	epfd    int
	closing []int
	events  [batch]syscall.EpollEvent
	buffer  [bufferSize]byte
}

func newLoop() (*loop, error) {
	epfd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &loop{epfd: epfd}, nil
}

// add registers a new session. Only the backend's side is registered: it is writable at once, and then the loop itself registers the
// client's. So all that follows happens on the loop. It may be called from any goroutine.
func (l *loop) add(client, backend int) {
	if client >= maxFD || backend >= maxFD {
		log.Printf("too many descriptors")
		syscall.Close(client)
		syscall.Close(backend)
		return
	}
	const watched = syscall.EPOLLIN | syscall.EPOLLOUT
	a, b := &side{fd: client}, &side{fd: backend, blocked: true, interest: watched}
	a.peer, b.peer = b, a
	sides[client].Store(a)
	sides[backend].Store(b) // from here on both are the loop's
	l.control(syscall.EPOLL_CTL_ADD, backend, watched)
}

// handle serves n events of the batch.
func (l *loop) handle(n int) {
	for i := range l.events[:n] {
		event := &l.events[i]
		s := sides[event.Fd].Load()
		if s == nil || s.dead {
			continue // ended earlier in this batch
		}
		switch {
		case event.Events&syscall.EPOLLERR != 0,
			event.Events&syscall.EPOLLHUP != 0 && s.interest&syscall.EPOLLIN == 0:
			l.end(s)
			continue
		case event.Events&syscall.EPOLLOUT != 0:
			l.writable(s)
		}
		if !s.dead && s.interest&syscall.EPOLLIN != 0 && event.Events&(syscall.EPOLLIN|syscall.EPOLLHUP) != 0 {
			l.readable(s)
		}
	}
	for _, fd := range l.closing {
		sides[fd].Store(nil)
		syscall.Close(fd)
	}
	l.closing = l.closing[:0]
}

// readable moves one read's worth of bytes from s to its peer. A short read
// means drained; what a full one left behind, epoll reports again.
func (l *loop) readable(s *side) {
	n, errno := read(s.fd, l.buffer[:])
	switch {
	case errno != 0:
		if !again(errno) {
			l.end(s)
		}
		return
	case n == 0: // nothing is pending towards the peer, or s would not be read
		s.ended = true
		if s.peer.ended {
			l.end(s)
			return
		}
		syscall.Shutdown(s.peer.fd, syscall.SHUT_WR)
		l.watch(s)
		return
	}
	sent, errno := write(s.peer.fd, l.buffer[:n])
	if sent == n {
		return
	}
	if errno != 0 {
		if !again(errno) {
			l.end(s)
			return
		}
		sent = 0
	}
	s.peer.rest = append([]byte(nil), l.buffer[sent:n]...)
	s.peer.blocked = true
	l.watch(s.peer)
	l.watch(s)
}

// writable sends the kept rest; once it is gone the peer is read again.
func (l *loop) writable(s *side) {
	if len(s.rest) > 0 {
		n, errno := write(s.fd, s.rest)
		if errno != 0 {
			if !again(errno) {
				l.end(s)
			}
			return
		}
		if s.rest = s.rest[n:]; len(s.rest) > 0 {
			return
		}
		s.rest = nil
	}
	s.blocked = false
	l.watch(s)
	l.watch(s.peer)
}

// watch tells epoll what a side waits for now: input unless its peer is
// blocked or it has ended, output while it is blocked itself.
func (l *loop) watch(s *side) {
	var want uint32
	if !s.ended && !s.peer.blocked {
		want |= syscall.EPOLLIN
	}
	if s.blocked {
		want |= syscall.EPOLLOUT
	}
	op := syscall.EPOLL_CTL_MOD
	switch {
	case want == s.interest:
		return
	case s.interest == 0:
		op = syscall.EPOLL_CTL_ADD
	case want == 0:
		op = syscall.EPOLL_CTL_DEL
	}
	s.interest = want
	l.control(op, s.fd, want)
}

func (l *loop) control(op, fd int, interest uint32) {
	event := syscall.EpollEvent{Events: interest, Fd: int32(fd)}
	if err := syscall.EpollCtl(l.epfd, op, fd, &event); err != nil {
		log.Fatalf("epoll_ctl: %v", err)
	}
}

// end ends a session. Its descriptors are closed after the batch, so that their
// numbers cannot come back while the batch still has events of the old ones.
func (l *loop) end(s *side) {
	s.dead, s.peer.dead = true, true
	l.closing = append(l.closing, s.fd, s.peer.fd)
}
