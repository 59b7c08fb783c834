package machine

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerUser returns the user of the process at the other end of a unix socket, as the kernel noted it when that process connected or began to
// listen (SO_PEERCRED, unix(7)). ok is false if that is not known.
func PeerUser(nc net.Conn) (uid int, ok bool) {
	socket, ok := nc.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, false
	}
	var credentials *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil || err != nil {
		return 0, false
	}
	return int(credentials.Uid), true
}
