// Package demo shows the proxy at work in one process: simulated inference servers, the proxy in front of them, and
// clients that stream speech in real time and get transcripts back.
package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// Options are the settings of a demonstration.
type Options struct {
	Clients  int           // that stream at the same time
	Servers  int           // simulated inference servers
	Duration time.Duration // 0: until the context ends
	Listen   string        // address of the proxy for clients
	Admin    string        // address of the proxy's admin API
	Version  string
	Program  string // how the user calls wsbouncer, for the commands to try
	// Out gets the output. Terminal says that Out is a terminal, whose screen can be redrawn.
	Out      io.Writer
	Terminal bool
	// Log gets the proxy's warnings.
	Log *slog.Logger
}

// Validate returns an error that says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Clients < 1 || o.Clients > 5000:
		return fmt.Errorf("--clients: %d is not between 1 and 5000", o.Clients)
	case o.Servers < 1 || o.Servers > 20:
		return fmt.Errorf("--servers: %d is not between 1 and 20", o.Servers)
	case o.Duration < 0:
		return fmt.Errorf("--duration: %v is negative", o.Duration)
	}
	return nil
}

// Run runs the demonstration until the context ends or the duration is over. It returns an error if a session failed, or if
// a transcript was not that of its own audio.
func Run(ctx context.Context, o Options) error {
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		return fmt.Errorf("reading the speech: %w", err)
	}
	set, err := stage.Start(ctx, stage.Options{
		Server:  sim.Options{Protocol: sim.Vosk, Latency: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, Logger: o.Log},
		Servers: o.Servers, Version: o.Version, Log: o.Log,
		Proxy: func(s *app.Settings) {
			s.Listen, s.Admin = []string{o.Listen}, o.Admin
			s.Connections = 2*o.Clients/o.Servers + 4 // each is used once, and its replacement is dialed meanwhile
			s.Warm = o.Clients/o.Servers/2 + 2
			s.DrainTimeout = 0
			s.CloseTimeout = time.Second
		},
	})
	if err != nil {
		return err
	}

	results := newResults()
	clientsCtx, endClients := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range o.Clients {
		c := &client{
			number: i, url: set.URL() + "/", audio: audio, results: results,
			wait: time.Duration(i) * streamEvery / time.Duration(o.Clients),
		}
		clients.Go(func() { c.run(clientsCtx) })
	}
	view := &view{options: o, proxy: set.Proxy(), results: results, started: time.Now()}
	view.run(ctx)
	endClients()
	clients.Wait()
	set.Close()
	return view.summary()
}

const (
	chunk       = 100 * time.Millisecond // of audio in a message
	streamEvery = 6 * time.Second        // clients begin at different times within it
	pauseLimit  = time.Second            // the longest pause of a client between two streams
)

// client streams speech again and again, as a device does. Its fields are static.
type client struct {
	number  int
	url     string
	audio   *wav.Audio
	results *results
	wait    time.Duration // before the first stream
}

func (c *client) run(ctx context.Context) {
	pause := c.wait
	for tasks.Sleep(ctx, pause) {
		pause = rand.N(pauseLimit)
		part := choosePart(c.audio)
		text, err := c.stream(ctx, part)
		if ctx.Err() != nil {
			return
		}
		c.results.finished(part, text, err)
	}
}

// part is a piece of the recording, in samples.
type part struct{ from, to int }

// choosePart returns one of a few pieces of the recording, so that many clients stream the same piece. Their transcripts must
// be the same.
func choosePart(audio *wav.Audio) part {
	second, total := audio.SampleRate, len(audio.PCM)/2
	from := rand.IntN(4) * second
	return part{from: from, to: min(total, from+(3+rand.IntN(3))*second)}
}

// stream runs one session and returns the transcript of its audio.
func (c *client) stream(ctx context.Context, p part) (text string, err error) {
	session := speech.Session{
		URL: c.url, SampleRate: c.audio.SampleRate, PCM: c.audio.PCM[2*p.from : 2*p.to], Chunk: chunk, Speed: 1,
		Heard: func(a speech.Answer, due time.Time) {
			if !due.IsZero() {
				c.results.answered(time.Since(due))
			}
			if a.Text != "" {
				text = joinText(text, a.Text)
			}
			if shown := a.Partial + a.Text; shown != "" {
				c.results.transcript(c.number, shown, a.Text != "")
			}
		},
	}
	err = session.Run(ctx)
	return text, err
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// results collects what the clients have seen. Any goroutine may call its methods.
type results struct {
	mu        sync.Mutex
	streams   int // finished
	failures  int
	mixed     int // transcripts that were not those of their audio
	lastError error
	latency   *hdrhistogram.Histogram // in microseconds
	answers   int
	expected  map[part]string // the first transcript of each piece of audio
	lines     []line          // the latest transcripts
}

// line is a transcript to show.
type line struct {
	client int
	text   string
	final  bool
}

const linesKept = 6

func newResults() *results {
	return &results{latency: hdrhistogram.New(1, 60_000_000, 3), expected: make(map[part]string)}
}

// answered records the time from when a chunk was due until its answer.
func (r *results) answered(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers++
	_ = r.latency.RecordValue(max(1, d.Microseconds())) // a minute is in its range
}

// transcript records a partial or final transcript.
func (r *results) transcript(client int, text string, final bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.lines { // a client has one unfinished line: the latest
		if r.lines[i].client == client && !r.lines[i].final {
			r.lines[i] = line{client, text, final}
			return
		}
	}
	r.lines = append(r.lines, line{client, text, final})
	if len(r.lines) > linesKept {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
}

// finished records the end of a stream. The same audio must have the same transcript, whichever client streams it.
func (r *results) finished(p part, text string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	if err != nil {
		r.failures++
		r.lastError = err
		return
	}
	if expected, ok := r.expected[p]; !ok {
		r.expected[p] = text
	} else if expected != text {
		r.mixed++
	}
}

// now returns a copy of the results.
func (r *results) now() (streams, failures, mixed, answers int, p50, p99 time.Duration, lines []line, last error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := func(q float64) time.Duration { return time.Duration(r.latency.ValueAtQuantile(q)) * time.Microsecond }
	return r.streams, r.failures, r.mixed, r.answers, at(50), at(99), append([]line(nil), r.lines...), r.lastError
}
