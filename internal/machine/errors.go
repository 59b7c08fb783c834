// Package machine knows what this machine gives the process: how many file descriptors there are and how many are in use, which
// errors say that something is short here, and what is kept for clients and for the admin API when it is.
//
// What is short on this side says nothing about a server: [Local] tells such errors from all others, and whoever judges servers
// leaves them out.
package machine

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// shortage is one kind of error that says that something is short on this machine.
type shortage struct {
	errno syscall.Errno
	what  string // is short
}

// Local tells whether an error says that something is short on this machine: file descriptors, memory of the kernel, local ports.
func Local(err error) bool { return short(err) != "" }

// short returns what is short on this machine; empty if the error says nothing of the kind.
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
	// The resolver keeps only the text of what went wrong with its own sockets.
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
