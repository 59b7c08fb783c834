//go:build !linux

package handshake

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: the system has no such limit, or none that is known here.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
