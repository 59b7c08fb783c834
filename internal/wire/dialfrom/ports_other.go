//go:build !linux

package dialfrom

import "syscall"

// sharePorts does nothing: these systems choose a local port when a socket is bound.
func sharePorts(syscall.RawConn) {}
