package load

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
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

	// Duration is the length of the steady part.
	Duration time.Duration
	// Drain is how long the last echoes are waited for; default 5 s.
	Drain time.Duration
	// Loops is the number of event loops; default half of GOMAXPROCS, at least one. The proxy and its backends often
	// share the machine, and fewer busy loops need less CPU than many idle ones.
	Loops int
	// Tick is the shortest time between two wake-ups of a loop to send: messages leave up to so much later than they are
	// due, and those that have become due meanwhile leave together. More costs less CPU here, and gives the server less
	// even a load. Default 100 us.
	Tick time.Duration
	// ProgressInterval is the time between two reports of progress; default 1 s.
	ProgressInterval time.Duration
}

// The bounds of what Options may ask for.
const (
	// MinSize is the smallest message in bytes: what tells which message of which client and run it is.
	MinSize = headSize
	// MaxSize is the largest message in bytes.
	MaxSize = 16 << 20
	// MaxRate is the highest rate in messages per second and client.
	MaxRate = 1e6

	minChunk = 10 * time.Millisecond
	maxChunk = 10 * time.Second
	maxTick  = 100 * time.Millisecond

	maxConnections = 1 << 20
	maxLoops       = 256
)

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
	set(&o.Chunk, 100*time.Millisecond)
	set(&o.Tick, 100*time.Microsecond)
	if o.Loops == 0 {
		o.Loops = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return o
}

// Validate tells what is wrong with the options: the field, its value and what is allowed. It returns nil when Run would
// accept them.
func (o Options) Validate() error {
	_, err := o.check()
	return err
}

// check validates the options, defaults filled in, and returns the parsed URLs.
func (o Options) check() ([]*handshake.Target, error) {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	var targets []*handshake.Target
	for _, text := range o.URLs {
		target, err := handshake.ParseTarget(text)
		if err != nil {
			bad("URL: %w", err)
			continue
		}
		targets = append(targets, target)
	}
	if len(o.URLs) == 0 {
		bad("URL: none given; at least one is needed")
	}
	between := func(name string, value, low, high int) {
		if value < low || value > high {
			bad("%s: %d; allowed is %d to %d", name, value, low, high)
		}
	}
	notNegative := func(name string, value time.Duration) {
		if value < 0 {
			bad("%s: %s; allowed is 0 or more", name, value)
		}
	}
	between("connections", o.Connections, 1, maxConnections)
	between("loops", o.Loops, 1, maxLoops)
	between("dial-parallel", o.DialParallel, 0, maxConnections)
	notNegative("ramp", o.Ramp)
	notNegative("connect-timeout", o.ConnectTimeout)
	notNegative("drain", o.Drain)
	notNegative("progress interval", o.ProgressInterval)
	if o.Duration <= 0 {
		bad("duration: %s; allowed is more than 0", o.Duration)
	}
	if o.Tick < 0 || o.Tick > maxTick {
		bad("tick: %s; allowed is 0 (default) to %s", o.Tick, maxTick)
	}
	if o.Audio != nil {
		o.checkSpeech(bad)
	} else {
		o.checkEcho(bad)
	}
	return targets, errors.Join(errs...)
}

// checkSpeech checks what goes with audio.
func (o Options) checkSpeech(bad func(format string, args ...any)) {
	if err := checkAudio(o.Audio); err != nil {
		bad("%w", err)
		return
	}
	if o.Chunk < minChunk || o.Chunk > maxChunk {
		bad("chunk: %s; allowed is %s to %s", o.Chunk, minChunk, maxChunk)
	} else if chunkSize(o.Audio, o.Chunk) == 0 {
		bad("chunk: %s; at %d samples per second it holds none", o.Chunk, o.Audio.SampleRate)
	}
	if l := length(o.Audio); o.Duration > 0 && o.Duration < l {
		bad("duration: %s; allowed is at least the length of the audio, %s", o.Duration, l)
	}
}

// checkEcho checks what goes with messages that are echoed.
func (o Options) checkEcho(bad func(format string, args ...any)) {
	between := func(name string, value, low, high int) {
		if value < low || value > high {
			bad("%s: %d; allowed is %d to %d", name, value, low, high)
		}
	}
	if math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > MaxRate {
		bad("rate: %v; allowed is 0 (idle) to %v messages per second", o.Rate, float64(MaxRate))
	}
	between("size", o.Size, MinSize, MaxSize)
	between("window", o.Window, 0, math.MaxInt32)
	if o.Unicode && !o.Text {
		bad("unicode: true; allowed for text messages only")
	}
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
