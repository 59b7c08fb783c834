package agent

import (
	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// now returns the time since the machine has booted, the time that it slept included.
func now() fleet.Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return fleet.Instant(t.Nano())
}
