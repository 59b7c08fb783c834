//go:build unix

package loop

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time that the process has used, and whether that is known.
func processTime() (time.Duration, bool) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
