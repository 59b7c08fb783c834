package machine

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// HungUp reports whether the peer of a connection has ended its direction, or the connection is broken, also while what it has sent before is still to
// be read (POLLRDHUP, poll(2)). It does not block.
func HungUp(nc net.Conn) bool {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	failed := raw.Control(func(fd uintptr) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	})
	return failed == nil && err == nil && n > 0
}
