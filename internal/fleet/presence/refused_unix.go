//go:build !windows

package presence

import "syscall"

// refused is what the system reports for a refused connection.
const refused = syscall.ECONNREFUSED
