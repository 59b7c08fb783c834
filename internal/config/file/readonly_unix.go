//go:build unix

package file

import (
	"errors"
	"syscall"
)

// isReadOnlySystem reports whether the error is that of a file system that is mounted read-only.
func isReadOnlySystem(err error) bool { return errors.Is(err, syscall.EROFS) }
