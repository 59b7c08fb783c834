//go:build unix

package loop

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the processor time that the process has used.
func processTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails only for a bad argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
