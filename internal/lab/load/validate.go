package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The bounds of Options.
const (
	// MinSize is the smallest message in bytes: its head, which names the run, the client and the message's number.
	MinSize = headSize
	// MaxSize is the largest message in bytes.
	MaxSize = 16 << 20
	// MaxRate is the highest rate in messages per second and client.
	MaxRate = 1e6

	minChunk = 10 * time.Millisecond
	maxChunk = 10 * time.Second
	maxTick  = 100 * time.Millisecond

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

func (f *faults) between(field string, value, low, high int) {
	if value < low || value > high {
		f.add("%s: %d is out of range: use %d to %d", field, value, low, high)
	}
}

func (f *faults) within(field string, value, low, high time.Duration) {
	if value < low || value > high {
		f.add("%s: %s is out of range: use %s to %s", field, value, low, high)
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
	_, err := o.check()
	return err
}

// check validates the options, defaults filled in, and returns the parsed URLs.
func (o Options) check() ([]*handshake.Target, error) {
	o = o.withDefaults()
	var f faults
	fields := o.checkRequest(&f)
	var targets []*handshake.Target
	for _, text := range o.URLs {
		target, err := handshake.ParseTarget(text)
		if err != nil {
			f.add("URL: %w", err)
			continue
		}
		target.Header, target.Protocol = fields, o.Subprotocol
		o.checkTLS(text, target, &f)
		targets = append(targets, target)
	}
	if len(o.URLs) == 0 {
		f.add("URL: missing: use one such as ws://127.0.0.1:8080/")
	}
	f.between("connections", o.Connections, 1, maxConnections)
	f.between("loops", o.Loops, 1, maxLoops)
	f.between("dial-parallel", o.DialParallel, 0, maxConnections)
	f.notNegative("ramp", o.Ramp)
	f.notNegative("connect-timeout", o.ConnectTimeout)
	f.notNegative("drain", o.Drain)
	f.notNegative("progress interval", o.ProgressInterval)
	f.within("sample interval", o.SampleInterval, minSample, maxSample)
	f.within("tick", o.Tick, 0, maxTick)
	if o.SessionLength != 0 {
		f.within("session-length", o.SessionLength, minSession, maxSession)
	}
	if o.Duration <= 0 {
		f.add("duration: %s is out of range: use more than 0s", o.Duration)
	}
	if o.Audio != nil {
		o.checkSpeech(&f)
	} else {
		o.checkEcho(&f)
	}
	return targets, errors.Join(f...)
}

// checkEcho checks the options for messages to echo.
func (o Options) checkEcho(f *faults) {
	if math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > MaxRate {
		f.add("rate: %v is out of range: use 0 (idle) to %.0f messages per second", o.Rate, float64(MaxRate))
	}
	f.between("size", o.Size, MinSize, MaxSize)
	f.between("window", o.Window, 0, math.MaxInt32)
	if o.Unicode && !o.Text {
		f.add("unicode: use it with text messages only")
	}
}

// checkSpeech checks the options for audio.
func (o Options) checkSpeech(f *faults) {
	if err := checkAudio(o.Audio); err != nil {
		f.add("%w", err)
		return
	}
	if o.SessionLength != 0 {
		f.add("session-length: %s: do not use it with audio, because a session is as long as the recording", o.SessionLength)
	}
	f.within("chunk", o.Chunk, minChunk, maxChunk)
	if o.Chunk > 0 && chunkSize(o.Audio, o.Chunk) == 0 {
		f.add("chunk: %s has no sample at %d samples per second: use a longer one", o.Chunk, o.Audio.SampleRate)
	}
	if l := length(o.Audio); o.Duration > 0 && o.Duration < l {
		f.add("duration: %s is shorter than the audio: use at least %s", o.Duration, l)
	}
}

// spareDescriptors is how many file descriptors a run needs at most in addition to those of its connections.
const spareDescriptors = 64

// checkDescriptors returns an error if the process may not open that many connections.
func checkDescriptors(connections int) error {
	if limit := machine.Limit(); limit < connections+spareDescriptors {
		return fmt.Errorf("connections: %d needs more file descriptors than this process may open, %d (ulimit -n): use at most %d connections",
			connections, limit, max(0, limit-spareDescriptors))
	}
	return nil
}
