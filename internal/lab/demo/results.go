package demo

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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
