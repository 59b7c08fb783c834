//go:build unix

package load

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spareDescriptors is how many descriptors a run needs beside its connections, with room to spare.
const spareDescriptors = 64

// checkDescriptors tells whether the process may have so many connections. It raises its own limit as far as it may.
func checkDescriptors(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("asking for the limit of open files: %w", err)
	}
	needed := uint64(connections + spareDescriptors)
	if uint64(limit.Cur) >= needed {
		return nil
	}
	raised := limit
	raised.Cur = raised.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
		limit = raised
	}
	if uint64(limit.Cur) >= needed {
		return nil
	}
	return fmt.Errorf("connections: %d; this process may open %d files (ulimit -n), which allows %d",
		connections, limit.Cur, max(0, int64(limit.Cur)-spareDescriptors))
}
