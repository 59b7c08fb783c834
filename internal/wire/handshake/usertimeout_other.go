//go:build !linux

package handshake

import (
	"syscall"
	"time"
)

// SetUserTimeout does nothing: the system has no such limit, or it is not supported here.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }
