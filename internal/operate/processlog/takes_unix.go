//go:build unix

package processlog

import (
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
		is = err != nil || n > 0
	})
	return err != nil || is
}
