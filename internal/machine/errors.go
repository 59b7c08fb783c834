// Package machine knows the resources of this machine: how many file descriptors the process may have and how many are in use, which
// errors say that a resource is short, and how many descriptors are reserved for clients and for the admin API.
//
// A resource that is short on this machine says nothing about a server. [Local] recognizes such errors, and whoever judges servers
// ignores them.
package machine

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// shortage is an error that says that something is short on this machine.
type shortage struct {
	errno syscall.Errno
	what  string // what is short
}

// Local reports whether an error says that something is short on this machine: file descriptors, kernel memory, local ports.
func Local(err error) bool { return short(err) != "" }

// short returns what is short on this machine according to the error; empty if the error is of another kind.
func short(err error) string {
	if err == nil {
		return ""
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		for _, s := range shortages {
			if s.errno == errno {
				return s.what
			}
		}
		return ""
	}
	// The resolver keeps only the text of errors of its own sockets.
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
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
)
