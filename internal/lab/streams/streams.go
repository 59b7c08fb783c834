// Package streams holds many sessions with a server simultaneously, exactly as the clients of a profile do (its key client, package speaker), at the
// pace of speech, and measures: first results, lag and its growth, last results, and texts.
//
// [Run] does all of it, on ordinary goroutines, one for each stream. Several goroutines may call it.
package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// Options say what is held with whom.
type Options struct {
	// Targets are the servers, or proxies; streams take them in turn. Their query is that of the recordings.
	Targets []*handshake.Target
	Profile *profile.Profile
	// Recordings are what is said. Each stream takes them in turn, and begins with another than the stream before.
	Recordings []*speaker.Recording
	// Streams is how many sessions there are at a time.
	Streams int
	// Spread is the time over which the streams begin.
	Spread time.Duration
	// For is how long streams begin further sessions once all have begun. Sessions that have begun by then are completed. 0 is for one session of each.
	For time.Duration
	// Pause is the time between two sessions of a stream.
	Pause time.Duration
	// Connect bounds the time to connect, and then until the server is ready; default 10 s.
	Connect time.Duration
	// Last bounds the time from a session's end to its last message; default 30 s.
	Last time.Duration
	// Alone are sessions with the same recordings that sessions are compared with; nil for no comparison.
	Alone *Reference
	// Progress is called on the goroutine of Run when a phase begins, and each Interval (default 1 s); nil for no report.
	Progress func(load.Progress)
	Interval time.Duration
}

const (
	defaultConnect = 10 * time.Second
	// DefaultLast is how long a server has to send the last message of a session, by default.
	DefaultLast = 30 * time.Second
	// closeTimeout is how long a server has to end a connection after a session.
	closeTimeout = time.Second
	// retry is how long a stream waits at least after a session that failed, so that it does not storm a server that refuses.
	retry = time.Second
)

// Reference is what sessions show that are alone on a server. It is immutable.
type Reference struct {
	// Result has the texts that others should have.
	Result *load.Result
	lags   []lags
}

// HasText reports whether a session had a text that others can be compared with.
func (r *Reference) HasText() bool {
	return slices.ContainsFunc(r.Result.Speech.Texts, func(text string) bool { return text != "" })
}

// Alone holds one session with each recording, one after the other, so that those of a crowd can be compared with them. The error is that of the first
// one that failed; the reference has what was measured until then.
func Alone(ctx context.Context, o Options) (*Reference, error) {
	o.Alone, o.Progress = nil, nil
	r := newRun(ctx, o)
	var err error
	for i := range o.Recordings {
		failed := r.hold(0, i, i > 0)
		if ctx.Err() != nil {
			err = errors.New("interrupted before the sessions alone had ended")
			break
		}
		if failed != nil {
			err = fmt.Errorf("a session alone, as of a client of the profile %s, failed: %w", o.Profile.Name, failed)
			break
		}
	}
	return &Reference{r.finish(), r.lags}, err
}

// Run holds sessions. When ctx ends, it cuts those that are under way, and returns what it has measured. The error says that the machine does
// not allow the load.
func Run(ctx context.Context, o Options) (*load.Result, error) {
	if err := load.CheckDescriptors(o.Streams); err != nil {
		return nil, err
	}
	r := newRun(ctx, o)
	var streams sync.WaitGroup
	for i := range o.Streams {
		streams.Go(func() { r.stream(i) })
	}
	over := make(chan struct{})
	go func() {
		streams.Wait()
		close(over)
	}()
	r.watch(over)
	return r.finish(), nil
}

// stream holds one session after the other.
func (r *run) stream(i int) {
	if !tasks.Sleep(r.ctx, r.Spread*time.Duration(i)/time.Duration(r.Streams)-r.now()) {
		return
	}
	for n := 0; n == 0 || r.now() < r.Spread+r.For; n++ {
		pause := r.Pause
		if r.hold(i, (i+n)%len(r.Recordings), n > 0) != nil {
			pause = max(pause, retry)
		}
		if r.now()+pause >= r.Spread+r.For || !tasks.Sleep(r.ctx, pause) {
			return
		}
	}
}
