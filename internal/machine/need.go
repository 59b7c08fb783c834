package machine

import "fmt"

// Need is the most that a configuration may need.
type Need struct {
	Connections int // connections to servers: the sum of the caps
	Waiting     int // clients in the queues
}

const (
	// perSession is how many descriptors a session takes: one for its client's connection and one for its server's. (On Linux each
	// is duplicated on its way to an event loop, and the original is closed at once.)
	perSession = 2
	// overhead is roughly how many descriptors everything else takes: listeners, event loops, the database, the log and handshakes.
	overhead = 200
)

// Descriptors returns the largest number of file descriptors that may be needed.
func (n Need) Descriptors() int { return perSession*n.Connections + n.Waiting + overhead }

// Warning returns a warning if the limit is too low, with the numbers and what to do; otherwise it is empty.
func (n Need) Warning(limit int) string {
	if n.Descriptors() <= limit {
		return ""
	}
	return fmt.Sprintf("the file-descriptor limit is %d, but up to %d may be needed: %d for %d connections to servers and as many clients, "+
		"%d for clients in queues, about %d for the rest; raise it (ulimit -n %d, or LimitNOFILE=%d in the systemd unit), or lower connections or queue",
		limit, n.Descriptors(), perSession*n.Connections, n.Connections, n.Waiting, overhead, n.Descriptors(), n.Descriptors())
}
