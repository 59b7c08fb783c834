//go:build linux

package main

import (
	"log"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// waiter runs a loop for ever: it waits for events in its own way and has the
// loop handle them. The ways differ in what the Go scheduler does meanwhile.
type waiter func(*loop)

var waiters = map[string]waiter{
	"block":  block,
	"poller": poller,
	"raw":    raw,
	"alert":  alert,
}

func waiterNames() string { return strings.Join(slices.Sorted(maps.Keys(waiters)), ", ") }

// poll is epoll_wait with a time-out, hidden from the scheduler.
func (l *loop) poll(timeout int) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_WAIT, uintptr(l.epfd),
		uintptr(unsafe.Pointer(&l.events)), batch, uintptr(timeout), 0, 0)
	if errno != 0 {
		if errno != syscall.EINTR {
			log.Fatalf("epoll_wait: %v", errno)
		}
		return 0
	}
	return int(n)
}

// pollBlocking is the plain system call: the scheduler sees the thread enter
// and leave it, and takes its P away when it stays.
func (l *loop) pollBlocking() int {
	n, err := syscall.EpollWait(l.epfd, l.events[:], -1)
	if err != nil && err != syscall.EINTR {
		log.Fatalf("epoll_wait: %v", err)
	}
	return max(n, 0)
}

// block waits in the plain system call. Every wake-up must win a P back.
func block(l *loop) {
	for {
		l.handle(l.pollBlocking())
	}
}

// pollable gives the epoll descriptor to the runtime's own poller: an epoll
// descriptor is readable when it has events, so epolls nest. The goroutine then
// parks like one that reads a socket, and the thread that the runtime keeps in
// its poller wakes it.
func (l *loop) pollable() syscall.RawConn {
	if err := syscall.SetNonblock(l.epfd, true); err != nil {
		log.Fatalf("epoll: %v", err)
	}
	conn, err := os.NewFile(uintptr(l.epfd), "epoll").SyscallConn()
	if err != nil {
		log.Fatalf("epoll: %v", err)
	}
	return conn
}

// poller waits in the runtime's poller. Read asks once before it parks, so a
// turn costs two epoll_wait calls here: one with events and one without.
func poller(l *loop) {
	conn := l.pollable()
	var n int
	ready := func(uintptr) bool {
		n = l.poll(0)
		return n > 0
	}
	for {
		if err := conn.Read(ready); err != nil {
			log.Fatalf("epoll: %v", err)
		}
		l.handle(n)
	}
}

// alert is raw for a loop that has events every few milliseconds, and block for
// one that has not: the dangers of raw last for 10 ms.
func alert(l *loop) {
	const timeout = 10
	for {
		n := l.poll(timeout)
		if n == 0 {
			n = l.pollBlocking()
		}
		l.handle(n)
	}
}

// raw blocks in epoll_wait without telling the scheduler: no hand-off of the P,
// so no cost to get it back; main raises GOMAXPROCS by one P for each loop.
//
// Dangers: the P is lost to everyone else while the loop sleeps. Goroutines and
// timers in its queue wait until another P steals them. A garbage collection
// stops the world only because the runtime's preemption signal interrupts the
// call (EINTR), which it repeats about every 100 us until all have stopped:
// with GODEBUG=asyncpreemptoff=1 the whole process would hang until the next
// event. The profiler and debuggers see a running goroutine that never returns.
func raw(l *loop) {
	runtime.LockOSThread()
	const forever = -1
	for {
		l.handle(l.poll(forever))
	}
}
