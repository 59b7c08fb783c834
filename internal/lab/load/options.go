package load

import (
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
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

	// Audio is a recording that each client streams to a speech server in real time, session after session, instead of
	// the messages that the fields from Rate to Window describe; these fields are not used then. It must be mono, and not longer
	// than Duration.
	Audio *wav.Audio
	// Chunk is the length of the audio in a message; default 100 ms.
	Chunk time.Duration
	// Config is the text message that begins each session and that the server does not answer; empty for none.
	Config string

	// SessionLength is how long each client's session lasts in the steady part before it ends it in order and begins another;
	// 0 for one session that lasts as long as the run. It does not go with Audio, where a session is as long as the recording.
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
	// Drain is how long to wait for the last echoes; default 5 s. During its first half, clients that have fallen behind still
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
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&o.ConnectTimeout, 10*time.Second)
	set(&o.Drain, 5*time.Second)
	set(&o.ProgressInterval, time.Second)
	set(&o.SampleInterval, time.Second)
	set(&o.Chunk, 100*time.Millisecond)
	set(&o.Tick, 100*time.Microsecond)
	if o.Loops == 0 {
		o.Loops = max(1, loop.Processors()/2)
	}
	return o
}

// interval returns the time between two messages of a client, 0 when it sends none.
func (o Options) interval() time.Duration {
	if o.Audio != nil {
		return o.Chunk
	}
	if o.Rate == 0 {
		return 0
	}
	return max(1, time.Duration(math.Round(float64(time.Second)/o.Rate)))
}
