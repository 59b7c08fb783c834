package load

import (
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/wav"
)

// Options say what load to offer. The zero value of a field means its default where one is given.
type Options struct {
	// URLs are the addresses to connect to; clients take them in turn.
	URLs []string
	// Connections is the number of clients.
	Connections int
	// Ramp is the time over which the clients connect; 0 lets all connect at once.
	Ramp time.Duration
	// DialParallel is the largest number of connections that are being opened at the same time; 0 for no limit.
	DialParallel int
	// ConnectTimeout is how long opening a connection may take, and how long the steady part waits for the last first
	// echo; default 10 s.
	ConnectTimeout time.Duration

	// Rate is the number of messages that each client sends a second; 0 leaves the connections idle after the first.
	Rate float64
	// Size is the length of a message in bytes.
	Size int
	// Text makes the messages text; they are binary otherwise.
	Text bool
	// Unicode makes text messages of characters of one to four bytes, not of ASCII alone.
	Unicode bool
	// Window is the largest number of messages that a client sends ahead of their echoes; 0 for no limit. Messages that
	// have to wait are as late as they are: latency counts from the time when they were due.
	Window int

	// Audio is a recording that each client streams to a speech server in real time, session after session, instead of
	// the messages that the fields from Rate to Window describe; they are not used then. It must be mono, and not longer
	// than Duration.
	Audio *wav.Audio
	// Chunk is how much audio a message holds; default 100 ms.
	Chunk time.Duration
	// Config is a text message to begin each session with, which the server does not answer; empty for none.
	Config string

	// SessionLength is how long each client's session lasts in the steady part before it ends it in order and begins another;
	// 0 for one session that lasts as long as the run. It does not go with Audio, where a session is as long as the recording.
	SessionLength time.Duration
	// NoJitter has all sessions last exactly as long. By default they last up to a tenth less or more, and the first ones end
	// at any time, so that they do not all end at once.
	NoJitter bool

	// Header is further fields of the upgrade request, each as "Name: value".
	Header []string
	// Subprotocol is the WebSocket subprotocol to ask for, which the server must choose; empty for none.
	Subprotocol string

	// Duration is the length of the steady part.
	Duration time.Duration
	// Drain is how long the last echoes are waited for; default 5 s. During the first half of it, clients that have fallen
	// behind still send what was due.
	Drain time.Duration
	// Loops is the number of event loops; default half of the processors, at least one. The proxy and its backends often
	// share the machine, and fewer busy loops need less CPU than many idle ones.
	Loops int
	// Tick is the shortest time between two wake-ups of a loop to send: messages leave up to so much later than they are
	// due, and those that have become due meanwhile leave together. More costs less CPU here, and gives the server less
	// even a load. Default 100 us.
	Tick time.Duration
	// ProgressInterval is the time between two reports of progress; default 1 s.
	ProgressInterval time.Duration
	// SampleInterval is the time that a point of the time series holds; default 1 s.
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
