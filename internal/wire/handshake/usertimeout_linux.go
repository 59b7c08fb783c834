package handshake

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SetUserTimeout sets the socket's TCP_USER_TIMEOUT, whose unit is a millisecond: how long the peer may acknowledge nothing, or accept
// nothing, until the connection is lost.
func SetUserTimeout(c syscall.RawConn, d time.Duration) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = os.NewSyscallError("setsockopt TCP_USER_TIMEOUT",
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, min(max(int(d.Milliseconds()), 1), math.MaxInt32)))
	})
	return errors.Join(err, set)
}
