//go:build !linux

package handshake

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: the system has no such limit, or it is not supported here.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
