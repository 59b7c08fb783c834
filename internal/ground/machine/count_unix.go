//go:build unix

package machine

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Limit returns how many file descriptors the process may have. At the start, the Go runtime has raised the soft limit to the hard
// one (and gives the former limit to child processes), so Limit does not raise it.
func Limit() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return unlimited
	}
	return int(min(uint64(l.Cur), unlimited))
}

// countNow returns how many descriptors are open, if the system can tell that without opening another: Linux since 6.2.
func countNow() (n int, ok bool) {
	var s unix.Stat_t
	if runtime.GOOS != "linux" || unix.Stat("/proc/self/fd", &s) != nil || s.Size <= 0 {
		return 0, false
	}
	return int(s.Size), true
}

// countOnce counts the open descriptors one by one.
func countOnce() int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return usual
	}
	return len(entries) - 1 // without the directory
}
