//go:build !linux && !darwin && !freebsd

package machine

import "errors"

// DiskSpace returns an error: it is not known here how much space a file system has.
func DiskSpace(string) (size, free uint64, id string, err error) {
	return 0, 0, "", errors.ErrUnsupported
}
