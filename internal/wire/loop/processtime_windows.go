package loop

import (
	"time"

	"golang.org/x/sys/windows"
)

// processTime returns the processor time that the process has used.
func processTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return 0
	}
	count := func(t windows.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
	return time.Duration(100 * (count(kernel) + count(user)))
}
