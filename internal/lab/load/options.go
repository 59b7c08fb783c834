package load

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Options describe the load. A zero field means its default, if it has one.
type Options struct {
	// URLs are the addresses to connect to; clients take them in turn.
	URLs []string
	// Connections is the number of clients.
	Connections int
	// Ramp is the time over which the clients connect; 0 lets all connect at once.
	Ramp time.Duration
	// DialParallel is how many connections may be opened at the same time; 0 for no limit.
	DialParallel int
	// ConnectTimeout is how long opening a connection may take, and how long the steady part waits for the last first
	// echo; default 10 s.
	ConnectTimeout time.Duration

	// Rate is the number of messages that each client sends per second; 0 leaves the connections idle after the first message.
	Rate float64
	// Size is the length of a message in bytes.
	Size int
	// Text makes the messages text; they are binary otherwise.
	Text bool
	// Unicode fills text messages with characters of one to four bytes instead of ASCII.
	Unicode bool
	// Window is how many messages of a client may wait for their echoes at a time; 0 for no limit. The latency of a message
	// that the window delays counts from the time when it was due, too.
	Window int

	// SessionLength is how long each client's session lasts in the steady part before it ends it in order and begins another;
	// 0 for one session that lasts as long as the run.
	SessionLength time.Duration
	// NoJitter makes all sessions last exactly SessionLength. By default they last up to a tenth less or more, and the first
	// ones end at random times, so that they do not all end at once.
	NoJitter bool

	// TLS says how wss:// servers are reached: the authorities to trust, a name, a certificate to present. Errors name the flags.
	TLS secure.Settings

	// Header has additional header fields of the upgrade request, each as "Name: value".
	Header []string
	// Subprotocol is the WebSocket subprotocol to ask for, which the server must choose; empty for none.
	Subprotocol string

	// Duration is the length of the steady part.
	Duration time.Duration
	// Drain is how long to wait for the last echoes; default [DefaultDrain]. During its first half, clients that have fallen behind still
	// send what was due.
	Drain time.Duration
	// Loops is the number of event loops; default half of the processors, at least one. The proxy and its backends often
	// share the machine, and a few busy loops need less CPU than many idle ones.
	Loops int
	// Tick is the shortest time between two wake-ups of a loop to send; default 100 us. Messages leave up to that much later
	// than they are due, and those that became due meanwhile leave together. A longer time costs less CPU here, and makes the
	// load on the server less even.
	Tick time.Duration
	// ProgressInterval is the time between two reports of progress; default 1 s.
	ProgressInterval time.Duration
	// SampleInterval is the time that a point of the time series covers; default 1 s.
	SampleInterval time.Duration
}

// withDefaults returns the options with the defaults filled in.
func (o Options) withDefaults() Options {
	o.ConnectTimeout, o.Drain = cmp.Or(o.ConnectTimeout, 10*time.Second), cmp.Or(o.Drain, DefaultDrain)
	o.ProgressInterval, o.SampleInterval = cmp.Or(o.ProgressInterval, time.Second), cmp.Or(o.SampleInterval, time.Second)
	o.Tick, o.Loops = cmp.Or(o.Tick, 100*time.Microsecond), cmp.Or(o.Loops, max(1, loop.Processors()/2))
	return o
}

// interval returns the time between two messages of a client, 0 when it sends none.
func (o Options) interval() time.Duration {
	if o.Rate == 0 {
		return 0
	}
	return max(1, time.Duration(math.Round(float64(time.Second)/o.Rate)))
}

// DefaultDrain is how long a run waits for the last echoes by default.
const DefaultDrain = 5 * time.Second

// The bounds of Options.
const (
	// MinSize is the smallest message in bytes: its head, which names the run, the client and the message's number.
	MinSize = headSize
	// MaxSize is the largest message in bytes.
	MaxSize = 16 << 20
	// MaxRate is the highest rate in messages per second and client.
	MaxRate = 1e6

	maxTick = 100 * time.Millisecond

	minSample  = 10 * time.Millisecond
	maxSample  = time.Hour
	minSession = 10 * time.Millisecond
	maxSession = 24 * time.Hour

	maxConnections = 1 << 20
	maxLoops       = 256
)

// faults collects errors in options. Each names the field, its value and what to use instead.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// within adds an error if a value is not from low to high.
func within[T int | time.Duration](f *faults, field string, value, low, high T) {
	if value < low || value > high {
		f.add("%s: %v is out of range: use %v to %v", field, value, low, high)
	}
}

func (f *faults) notNegative(field string, value time.Duration) {
	if value < 0 {
		f.add("%s: %s is negative: use 0s or more", field, value)
	}
}

// Validate returns an error that names each wrong field, its value and what to use instead. It returns nil if Run would
// accept them.
func (o Options) Validate() error {
	_, err := o.Targets()
	return err
}

// Targets returns the servers of the URLs, with the header, subprotocol and TLS settings of the options. The error is that of Validate.
func (o Options) Targets() ([]*handshake.Target, error) {
	o = o.withDefaults()
	var f faults
	fields := o.checkRequest(&f)
	header := make(http.Header)
	for _, field := range fields {
		header[field.Name] = append(header[field.Name], field.Value)
	}
	var targets []*handshake.Target
	for _, text := range o.URLs {
		target, err := handshake.ParseTarget(text)
		if err != nil {
			f.add("URL: %w", err)
			continue
		}
		target.Protocol = o.Subprotocol
		if len(header) > 0 { // not Target.Header, whose values the handshake does not hide
			target.Resolve = func() (http.Header, error) { return header, nil }
		}
		o.checkTLS(text, target, &f)
		targets = append(targets, target)
	}
	if len(o.URLs) == 0 {
		f.add("URL: missing: use one such as ws://127.0.0.1:8080/")
	}
	within(&f, "connections", o.Connections, 1, maxConnections)
	within(&f, "loops", o.Loops, 1, maxLoops)
	within(&f, "dial-parallel", o.DialParallel, 0, maxConnections)
	f.notNegative("ramp", o.Ramp)
	f.notNegative("connect-timeout", o.ConnectTimeout)
	f.notNegative("drain", o.Drain)
	f.notNegative("progress interval", o.ProgressInterval)
	within(&f, "sample interval", o.SampleInterval, minSample, maxSample)
	within(&f, "tick", o.Tick, 0, maxTick)
	if o.SessionLength != 0 {
		within(&f, "session-length", o.SessionLength, minSession, maxSession)
	}
	if o.Duration <= 0 {
		f.add("duration: %s is out of range: use more than 0s", o.Duration)
	}
	if math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > MaxRate {
		f.add("rate: %v is out of range: use 0 (idle) to %.0f messages per second", o.Rate, float64(MaxRate))
	}
	within(&f, "size", o.Size, MinSize, MaxSize)
	within(&f, "window", o.Window, 0, math.MaxInt32)
	if o.Unicode && !o.Text {
		f.add("unicode: use it with text messages only")
	}
	return targets, errors.Join(f...)
}

// spareDescriptors is how many file descriptors a run needs at most in addition to those of its connections.
const spareDescriptors = 64

// CheckDescriptors returns an error if the process may not open that many connections.
func CheckDescriptors(connections int) error {
	if limit := machine.Limit(); limit < connections+spareDescriptors {
		return fmt.Errorf("connections: %d needs more file descriptors than this process may open, %d (ulimit -n): use at most %d connections",
			connections, limit, max(0, limit-spareDescriptors))
	}
	return nil
}

// ownFields are the header fields of the opening handshake itself (RFC 6455, section 4.1), in lower case.
var ownFields = []string{
	"host", "upgrade", "connection", "content-length", "transfer-encoding", "sec-websocket-key", "sec-websocket-version",
	"sec-websocket-extensions", "sec-websocket-protocol",
}

// checkRequest checks the options for the upgrade request, except for the URL, and returns the additional header fields.
func (o Options) checkRequest(f *faults) []handshake.Field {
	var fields []handshake.Field
	for i, text := range o.Header {
		name, value, ok := strings.Cut(text, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok:
			// The text may be a secret, so it is not shown.
			f.add("header: field %d has no colon: use a name and a value, such as 'Authorization: Bearer abc'", i+1)
		case !handshake.IsToken(name):
			f.add("header: field %d has an invalid name before its colon: use letters, digits and !#$%%&'*+-.^_`|~", i+1)
		case slices.Contains(ownFields, strings.ToLower(name)):
			f.add("header: the handshake itself sets %q", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.add("header: the value of %q has a control character: use visible characters, spaces and tabs", name)
		default:
			fields = append(fields, handshake.Field{Name: name, Value: value})
		}
	}
	if o.Subprotocol != "" && !handshake.IsToken(o.Subprotocol) {
		f.add("subprotocol: invalid name %q: use letters, digits and !#$%%&'*+-.^_`|~", o.Subprotocol)
	}
	return fields
}

// checkTLS sets how a target is reached over TLS, and reads the files once, so that errors are reported before the run begins.
func (o Options) checkTLS(url string, target *handshake.Target, f *faults) {
	if !target.Secure() {
		if o.TLS != (secure.Settings{}) {
			f.add("URL: %q does not use TLS: use wss:// with the flags that begin with tls-", url)
		}
		return
	}
	target.SetTLS(o.TLS)
	if _, err := target.TLS(); err != nil {
		f.add("%w", err)
	}
}
