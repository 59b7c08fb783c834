//go:build unix

package processlog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// takes reports whether a file takes something without waiting. A regular file always does, and so does one that fails.
func takes(file *os.File) (is bool) {
	raw, err := file.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		is = n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	return err != nil || is
}
