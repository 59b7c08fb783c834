//go:build unix

package accesslog

import "syscall"

// doNotWait has opening a named pipe without a reader fail immediately (open in POSIX: ENXIO).
const doNotWait = syscall.O_NONBLOCK
