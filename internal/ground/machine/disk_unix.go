//go:build linux || darwin || freebsd

package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DiskSpace returns the size of the file system that a path is on, how much of it this process can still use, in bytes, and what identifies it.
// It may wait for the disk.
func DiskSpace(path string) (size, free uint64, id string, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, "", &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	blocks := uint64(max(int64(s.Bavail), 0)) //nolint:gosec,unconvert // it is signed on some systems: what is reserved for root may be used
	if os.Geteuid() == 0 {
		blocks = s.Bfree
	}
	unit := uint64(s.Bsize) //nolint:gosec,unconvert // it is positive, and of another type on some systems
	return s.Blocks * unit, blocks * unit, fmt.Sprint(s.Fsid, s.Blocks), nil
}
