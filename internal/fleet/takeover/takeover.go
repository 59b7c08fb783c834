// Package takeover hands the listening sockets of a running proxy to the process that succeeds it, so that no connection attempt is
// refused or reset while a program is replaced. It is the protocol between the two processes, over a unix socket that carries
// descriptors (SCM_RIGHTS, unix(7)), and how the running process starts its successor. It knows nothing of what is served.
//
//	successor                        running process
//	hello: who I am            ->
//	                           <-    welcome: who I am, how many sockets; or refused: why
//	                           <-    socket, with its descriptor, for each
//	step: what I do now        ->                                              any number
//	ready: I can serve         ->
//	                           <-    yours: accept clients
//	serving: which ones I keep ->
//	                                 stops accepting, and drains
//
// Each message is one of JSON behind its length. Fields and messages that a side does not know are ignored, so that older and newer
// programs succeed each other. Both processes accept clients between "yours" and the end, so that there is no moment in which none does.
// The running process continues as if nothing had happened if anything fails before "serving", and says why to the successor ("refused").
//
// [Hand] is the side of the running process, [Ask] that of its successor. Both work on Linux only: [Supported].
package takeover

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// protocol is the version of the protocol that this program speaks, and oldest the oldest that it understands.
const (
	protocol = 1
	oldest   = 1
)

// DefaultTimeout is how long a take-over may take unless it is said otherwise.
const DefaultTimeout = time.Minute

// ErrUnsupported says that the operating system cannot do this.
var ErrUnsupported = errors.New("taking over the sockets of a running proxy is available on Linux only")

// Kind is what a listening socket is for.
type Kind string

// The kinds, named as the settings with their addresses.
const (
	Plain       Kind = "listen"
	TLS         Kind = "tls-listen"
	Admin       Kind = "admin"
	AdminSocket Kind = "admin-socket"
)

// Socket is a listening socket.
type Socket struct {
	Kind     Kind         // empty if it is not known: a socket that systemd opened
	Name     string       // its address as the settings have it, or the name that systemd has for it
	Listener net.Listener // a [*net.TCPListener] or [*net.UnixListener]
	Foreign  bool         // systemd opened it, and keeps it: the path of a unix socket is not removed
}

// Process is one of the two processes.
type Process struct {
	PID     int
	Version string // of the program
	// Instance identifies the state directory, see [Instance]; empty without one. Both processes must have the same.
	Instance string
}

func (p *Process) String() string { return fmt.Sprintf("process %d, version %s", p.PID, p.Version) }

// RefusedError says why the other side ended the take-over.
type RefusedError struct{ Reason string }

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Offer is what the running process hands over, and how.
type Offer struct {
	Self    Process
	Sockets []Socket
	// Step hears in words how far the take-over has come. It must not block.
	Step func(text string)
	// Prepare is called when the successor is ready, before it may accept clients. lacks says what it still lacks to serve, where that may be a
	// reason to continue with this process; empty for nothing. An error ends the take-over.
	Prepare func(lacks string) error
}

// Successor is a process that has taken over.
type Successor struct {
	Process
	Kept []bool // whether it continues with the socket of the same number
	// Conn is the connection to it, for what the two have to say to each other from now on. It breaks when the process ends. The caller of [Hand]
	// closes it.
	Conn net.Conn
}

// Succession is a take-over as the successor sees it. One goroutine uses it.
type Succession struct {
	From    Process  // the running process
	Sockets []Socket // its listening sockets
	// Orphaned is true after Ready if the running process ended by itself meanwhile, so that only this one can serve.
	Orphaned bool

	conn *conn
}

// message is what the processes send each other.
type message struct {
	Type string `json:"type"`
	// hello and welcome
	Protocol int    `json:"protocol,omitempty"`
	Oldest   int    `json:"oldest,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Version  string `json:"version,omitempty"`
	Instance string `json:"instance,omitempty"`
	Sockets  int    `json:"sockets,omitempty"` // welcome: how many follow
	// socket
	Kind    Kind   `json:"kind,omitempty"`
	Name    string `json:"name,omitempty"`
	Foreign bool   `json:"foreign,omitempty"`
	// step; ready: what is lacking nevertheless; refused: why
	Text string `json:"text,omitempty"`
	// serving: the numbers of the sockets that the successor keeps, in the order in which they came
	Kept []int `json:"kept,omitempty"`
}

// The types of messages.
const (
	hello   = "hello"
	welcome = "welcome"
	socket  = "socket"
	step    = "step"
	ready   = "ready"
	yours   = "yours"
	serving = "serving"
	refused = "refused"
)

// introduction returns the message by which a process introduces itself.
func introduction(kind string, p *Process) *message {
	return &message{Type: kind, Protocol: protocol, Oldest: oldest, PID: p.PID, Version: p.Version, Instance: p.Instance}
}

// process returns who has introduced itself.
func (m *message) process() Process {
	return Process{PID: m.PID, Version: m.Version, Instance: m.Instance}
}

// understood returns an error if this program and the one that has introduced itself have no version of the protocol in common.
func (m *message) understood() error {
	switch {
	case m.Protocol < oldest:
		return fmt.Errorf("version %s speaks version %d of the take-over protocol, and this is version %d or later: stop the old process, then start the new one",
			m.Version, m.Protocol, oldest)
	case m.Oldest > protocol:
		return fmt.Errorf("version %s needs version %d of the take-over protocol, and this process knows those up to %d: stop the old process, then start the new one",
			m.Version, m.Oldest, protocol)
	}
	return nil
}
