package sim

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Options are the settings of a server. The zero value is an echo server without limits on any free port of the
// loopback interface.
type Options struct {
	// Listen is the TCP address to listen on, host:port. Port 0 takes any free one. Default 127.0.0.1:0.
	Listen string
	// TLS is the configuration of TLS. Default nil: no TLS.
	TLS *tls.Config
	// Protocol is the name of one of Protocols. Default Echo.
	Protocol string
	// Subprotocol is accepted when a client offers it (Sec-WebSocket-Protocol). Default: the protocol's own, if it has one.
	Subprotocol string
	// Path is the path that clients must request; others get HTTP 404. Default: any.
	Path string
	// APIKey is the key that clients must send in the opening handshake, in the way of the simulated service. Others are refused as the
	// service refuses them. Default: no key.
	APIKey string
	// RefuseByStatus answers a bad key with an HTTP status, even if the real service accepts the upgrade and then reports the error in
	// a message. Default: as the service does.
	RefuseByStatus bool
	// Latency is the time between a message and its answer. Messages do not wait for one another's answers, but the
	// answers of a connection stay in order. Default 0.
	Latency time.Duration
	// Jitter is the most that is added to Latency: each answer gets a random part of it. Default 0.
	Jitter time.Duration
	// Sessions is the hard limit of simultaneous connections; an upgrade above it is answered with HTTP 503. Default 0:
	// no limit.
	Sessions int
	// MaxMessage is the largest message accepted, in bytes; a larger one ends its connection with 1009. Default 16 MiB.
	MaxMessage int64
	// Loops is the number of event loops. One serves thousands of connections at the least CPU. Default 1.
	Loops int
	// Fail says how the server fails, and how often. Default: it does not.
	Fail FailOptions
	// Nasty switches on bad habits that make connections unsafe to reuse. Default: only those that the real server always has.
	Nasty NastyOptions
	// Admit returns the HTTP status that refuses a valid upgrade request, or 0 to accept it. It is called from any goroutine. Default
	// nil: all are accepted, up to Sessions.
	Admit func(r *http.Request) (status int)
	// Heard is called with the session of each mark that clients send, on the loop of the connection. Default nil.
	Heard func(session uint64)
	// Silence is how long a client may send nothing before the server ends the connection. Default: Protocol.Silence, which may be 0
	// for no limit.
	Silence time.Duration
	// Seed makes jitter and failures repeatable: with the same seed, the first, second, ... connection has the same fate. Default 0.
	Seed uint64
	// Logger gets what an operator wants to know. Default: nothing is logged.
	Logger *slog.Logger
}

// The largest values that make sense; larger ones are errors.
const (
	maxDelay = time.Hour
	maxLoops = 256
)

// withDefaults returns the options with their defaults filled in.
func (o Options) withDefaults() Options {
	o.Listen, o.Protocol = cmp.Or(o.Listen, "127.0.0.1:0"), cmp.Or(o.Protocol, Echo)
	o.MaxMessage, o.Loops = cmp.Or(o.MaxMessage, 16<<20), cmp.Or(o.Loops, 1)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Validate returns an error that names the wrong field, its value and what to use instead.
func (o Options) Validate() error {
	o = o.withDefaults()
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("listen: invalid address %q: use host:port, such as 127.0.0.1:9001", o.Listen)
	}
	protocol, err := protocolNamed(o.Protocol)
	if err != nil {
		return err
	}
	if o.Path != "" && !strings.HasPrefix(o.Path, "/") {
		return fmt.Errorf("path: %q does not begin with a slash: use a path such as /v1/listen, or none for any", o.Path)
	}
	if err := o.validKey(protocol); err != nil {
		return err
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"latency", o.Latency}, {"jitter", o.Jitter}, {"silence", o.Silence}} {
		if d.value < 0 || d.value > maxDelay {
			return fmt.Errorf("%s: %v is out of range: use 0s to %v", d.field, d.value, maxDelay)
		}
	}
	switch {
	case o.Sessions < 0:
		return fmt.Errorf("sessions: %d is out of range: use 1 or more, or 0 for no limit", o.Sessions)
	case o.MaxMessage < 0:
		return fmt.Errorf("max message: %d is out of range: use 1 byte or more, or 0 for the default", o.MaxMessage)
	case o.Loops < 0 || o.Loops > maxLoops:
		return fmt.Errorf("loops: %d is out of range: use 1 to %d, or 0 for the default", o.Loops, maxLoops)
	}
	if err := o.Fail.validate(); err != nil {
		return err
	}
	return o.Nasty.validate()
}
