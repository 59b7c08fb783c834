//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"
)

// read and write skip the scheduler's bookkeeping of a system call
// (syscall.RawSyscall): the descriptors are non-blocking, so neither can keep
// the thread for longer than the copy takes.

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

func resolve(address string) (syscall.SockaddrInet4, error) {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().Is4() {
		return syscall.SockaddrInet4{}, fmt.Errorf("not an IPv4 address with a port: %s", address)
	}
	return syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
}

func listenTCP(address string) (int, error) {
	sa, err := resolve(address)
	if err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(fd, &sa); err != nil {
		return -1, fmt.Errorf("bind %s: %w", address, err)
	}
	return fd, syscall.Listen(fd, 4096)
}

func connect(to *syscall.SockaddrInet4) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := syscall.Connect(fd, to); err != nil && err != syscall.EINPROGRESS {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}
