// Package machine knows the resources of this machine: how many file descriptors the process may have and how many are in use, which
// errors say that a resource is short, and how many descriptors are reserved for clients and for the admin API.
//
// A resource that is short on this machine says nothing about a server. [Local] recognizes such errors, and code that judges servers
// ignores them.
package machine

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// shortage is an error that says that something is short on this machine.
type shortage struct {
	errno syscall.Errno
	what  string // what is short
}

// Local reports whether an error says that something is short on this machine: file descriptors, kernel memory, local ports or
// addresses.
func Local(err error) bool { return short(err) != "" }

// Unaddressed reports whether an error says that a local address has no port left, or is not on this machine. Another one may do.
func Unaddressed(err error) bool {
	what := short(err)
	return what == ports || what == addresses
}

// OutOfDescriptors reports whether an error says that no file descriptor is free.
func OutOfDescriptors(err error) bool { return strings.HasPrefix(short(err), descriptors) }

// Disk reports whether an error says that a disk takes nothing: it is full, read-only, or fails.
func Disk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO)
}

// LocalError is an error that no system call has returned, and that says that something is short on this machine.
type LocalError struct {
	What string // what is short
	Text string
}

func (e *LocalError) Error() string { return e.Text }

// short returns what is short on this machine according to the error; empty if the error is of another kind.
func short(err error) string {
	if err == nil {
		return ""
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		for _, s := range shortages {
			if s.errno != errno {
				continue
			}
			if call, ok := errors.AsType[*os.SyscallError](err); errno == noAddress && ok && call.Syscall == "bind" {
				return addresses // the machine does not have it, or, on some systems, its ports are in use
			}
			return s.what
		}
		return ""
	}
	if own, ok := errors.AsType[*LocalError](err); ok {
		return own.What
	}
	// The resolver keeps only the text of its own sockets' errors.
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		for _, s := range shortages {
			if strings.HasSuffix(dns.Err, ": "+s.errno.Error()) {
				return s.what
			}
		}
	}
	return ""
}

// Names of what may be short.
const (
	descriptors = "file descriptors"
	memory      = "kernel memory"
	ports       = "local ports"
	addresses   = "usable local addresses"
)
