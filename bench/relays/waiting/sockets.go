//go:build linux

package main

import (
	"net"
	"syscall"
	"unsafe"
)

// read and write use syscall.RawSyscall, which skips the scheduler's bookkeeping of a system call: the descriptors are
// non-blocking, so neither can keep the thread for longer than the copy takes.

func read(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

func write(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// again tells a descriptor that has nothing for us now from one that is broken.
func again(errno syscall.Errno) bool {
	return errno == syscall.EAGAIN || errno == syscall.EINTR
}

// detach returns a non-blocking descriptor of the connection that the runtime's poller does not watch. It closes the connection's
// own.
func detach(conn *net.TCPConn) (fd int, err error) {
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := raw.Control(func(original uintptr) { fd, err = syscall.Dup(int(original)) }); failed != nil {
		return -1, failed
	}
	return fd, err
}
