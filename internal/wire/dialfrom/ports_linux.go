package dialfrom

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePorts lets connections to different servers use the same local port. The system usually chooses a port when a socket is bound to
// an address. It does not know the server yet, so the port cannot be used for any other server: all servers together would have
// the ports of the address. With IP_BIND_ADDRESS_NO_PORT (since Linux 4.2; see ip(7)), it chooses when the socket is connected, and
// each server has all ports. The option holds for IPv6, too. A kernel without it chooses as usual.
func sharePorts(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) })
}
