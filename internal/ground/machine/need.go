package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// Need is the most that a configuration may need.
type Need struct {
	Connections int // connections to servers: the sum of the caps
	Secure      int // those of them that use TLS
	Waiting     int // clients in the queues
	// SecureClients: clients speak TLS, too. All of them may, since it is not known how many use which listener.
	SecureClients bool
	Servers       []Server
	// Each are names that stand for servers that are not known yet: Connections counts one server for each.
	Each []string
}

// Server is an address that connections are dialed to.
type Server struct {
	Address     string // host:port
	Connections int    // the sum of the caps of its backends
	Each        bool   // the host stands for servers that are not known yet: each gets as many connections
	Sources     int    // local addresses that it is dialed from; 0 if dial-from has none of its family
}

const (
	// perSession is how many descriptors a session takes: one for its client's connection and one for its server's. (On Linux each
	// is duplicated on its way to an event loop, and the original is closed at once.)
	perSession = 2
	// overhead is roughly how many descriptors everything else takes: listeners, event loops, the database, the log and handshakes.
	overhead = 200

	// Memory in bytes, rounded up from what docs/sizing.md measures. It has no allowance for what slow receivers have not taken.
	memoryProcess       = 32 << 20 // the program, and garbage that handshakes leave
	memoryConnection    = 1 << 10  // of the process, for a connection to a server
	memorySession       = 3 << 10  // of the process, for what a session adds
	memorySecure        = 6 << 10  // of the process, for what TLS adds to a connection to a server
	memorySecureClient  = 8 << 10  // of the process, for what TLS with its client adds to a session
	memoryWaiting       = 16 << 10 // of the process, for a client in a queue
	memorySecureWaiting = 10 << 10 // of the process, for what TLS adds to such a client
	memorySocket        = 5 << 10  // of the kernel, for each socket without what is in its buffers; containers are charged for it
)

// Descriptors returns the largest number of file descriptors that may be needed.
func (n *Need) Descriptors() int { return perSession*n.Connections + n.Waiting + overhead }

// Memory returns roughly how many bytes are needed, if peers take what is sent to them: of the process, and of the kernel for its sockets.
func (n *Need) Memory() int64 {
	connections, secure, waiting := int64(n.Connections), int64(n.Secure), int64(n.Waiting)
	process := connections*(memoryConnection+memorySession) + secure*memorySecure + waiting*memoryWaiting
	if n.SecureClients {
		process += connections*memorySecureClient + waiting*memorySecureWaiting
	}
	sockets := perSession*connections + waiting
	return memoryProcess + process + sockets*memorySocket
}

// Here is what this machine grants the process. A negative number is not known.
type Here struct {
	Descriptors int
	Memory      int64  // in bytes
	MemoryOf    string // what limits the memory, such as "the machine"
	Ports       int    // local ports for connections from one local address to one server
}

// Granted returns what this machine grants the process now.
func Granted() Here {
	h := Here{Descriptors: Limit(), Ports: localPorts()}
	h.Memory, h.MemoryOf = memoryLimit()
	return h
}

// Names of resources that a configuration needs.
const (
	ResourceDescriptors = "file descriptors"
	ResourceMemory      = "memory"
	ResourcePorts       = "local ports"
)

// Demand is how much a configuration needs of one resource, and how much there is.
type Demand struct {
	Resource string
	Server   string // host:port; for local ports only
	Each     bool   // it is for each server that the host stands for, or leaves those out that are not known yet
	Needed   int64
	Have     int64  // negative if it is not known
	Advice   string // if it is too little: the numbers, and what to do
}

// Enough reports whether there is enough, as far as it is known.
func (d *Demand) Enough() bool { return d.Advice == "" }

// Demands compares what is needed with what there is: descriptors, memory, and then local ports for each server, the scarcest first.
func (n *Need) Demands(h Here) []Demand {
	demands := []Demand{n.descriptors(h), n.memory(h)}
	ports := make([]Demand, 0, len(n.Servers))
	for i := range n.Servers {
		ports = append(ports, n.Servers[i].ports(h))
	}
	slices.SortStableFunc(ports, func(a, b Demand) int {
		if a.Enough() != b.Enough() {
			return cmp.Compare(len(b.Advice), len(a.Advice))
		}
		return cmp.Compare(b.Needed*max(a.Have, 1), a.Needed*max(b.Have, 1)) // the larger share first
	})
	return append(demands, ports...)
}

func (n *Need) descriptors(h Here) Demand {
	d := Demand{Resource: ResourceDescriptors, Each: len(n.Each) > 0, Needed: int64(n.Descriptors()), Have: int64(h.Descriptors)}
	if h.Descriptors == unlimited {
		d.Have = -1
	}
	if d.Have >= 0 && d.Needed > d.Have {
		d.Advice = fmt.Sprintf("the file-descriptor limit is %d, but up to %d may be needed: %d for %d connections to servers and as many clients, "+
			"%d for clients in queues, about %d for the rest; raise it (ulimit -n %d, or LimitNOFILE=%d in the systemd unit), or lower connections or queue",
			h.Descriptors, d.Needed, perSession*n.Connections, n.Connections, n.Waiting, overhead, d.Needed, d.Needed)
	}
	return d
}

func (n *Need) memory(h Here) Demand {
	d := Demand{Resource: ResourceMemory, Each: len(n.Each) > 0, Needed: n.Memory(), Have: h.Memory}
	if d.Have >= 0 && d.Needed > d.Have {
		d.Advice = fmt.Sprintf("the memory limit is %s (of %s), but about %s may be needed, for %d connections to servers and as many clients, and %d clients in queues; "+
			"raise it (MemoryMax= in the systemd unit, resources.limits.memory in Kubernetes), or lower connections or queue",
			figures.Bytes(float64(d.Have)), h.MemoryOf, figures.Bytes(float64(d.Needed)), n.Connections, n.Waiting)
	}
	return d
}

func (s *Server) ports(h Here) Demand {
	d := Demand{Resource: ResourcePorts, Server: s.Address, Each: s.Each, Needed: int64(s.Connections), Have: int64(h.Ports)}
	if h.Ports > 0 {
		d.Have *= int64(s.Sources)
	}
	switch {
	case s.Sources == 0:
		d.Have = 0
		family := "IPv4"
		if strings.HasPrefix(s.Address, "[") { // its host is an address: a name would be dialed from any
			family = "IPv6"
		}
		d.Advice = fmt.Sprintf("%s cannot be dialed: dial-from has no %s address; add one", s.Address, family)
	case d.Have >= 0 && d.Needed > d.Have && h.Ports > 0:
		d.Advice = fmt.Sprintf("%s may get %d connections, but there are %d local ports for them: give the proxy at least %d local addresses to dial from (dial-from), "+
			"widen net.ipv4.ip_local_port_range, or lower connections", s.Address, d.Needed, d.Have, (d.Needed+int64(h.Ports)-1)/int64(h.Ports))
	}
	return d
}

// Warnings returns, by resource, what is too little and what to do. For local ports it names the server that lacks most.
func Warnings(demands []Demand) map[string]string {
	warnings := make(map[string]string)
	others := 0
	for i := range demands {
		switch d := &demands[i]; {
		case d.Enough():
		case warnings[d.Resource] == "":
			warnings[d.Resource] = d.Advice
		default: // only local ports can lack more than once
			others++
		}
	}
	if others > 0 {
		warnings[ResourcePorts] += fmt.Sprintf(" (and %s: see 'wsbouncer check')", figures.Plural(others, "other server"))
	}
	return warnings
}
