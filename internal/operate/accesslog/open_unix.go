//go:build unix

package accesslog

import "syscall"

// doNotWait has opening a named pipe that nobody reads fail at once (open in POSIX: ENXIO).
const doNotWait = syscall.O_NONBLOCK
