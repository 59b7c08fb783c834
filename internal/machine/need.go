package machine

import "fmt"

// Need is what a configuration may ask for at most.
type Need struct {
	Connections int // to servers: the sum of the caps
	Waiting     int // clients in the queues
}

const (
	// perSession is how many descriptors a session takes: its client's and its server's. Each is duplicated when it comes to
	// an event loop (Linux), and the first one closed at once, which counts for connections that are just coming only.
	perSession = 2
	// overhead is about what the process takes beside that: listeners, event loops, the database, its log, and handshakes.
	overhead = 200
)

// Descriptors returns how many file descriptors are needed at most.
func (n Need) Descriptors() int { return perSession*n.Connections + n.Waiting + overhead }

// Warning says that the limit is too low for the need, with the numbers and what to do; empty if it is not.
func (n Need) Warning(limit int) string {
	if n.Descriptors() <= limit {
		return ""
	}
	return fmt.Sprintf("the file-descriptor limit is %d, but up to %d may be needed: %d for %d connections to servers and as many clients, "+
		"%d for clients in queues, about %d for the rest; raise it (ulimit -n %d, or LimitNOFILE=%d in the systemd unit), or lower connections or queue",
		limit, n.Descriptors(), perSession*n.Connections, n.Connections, n.Waiting, overhead, n.Descriptors(), n.Descriptors())
}
