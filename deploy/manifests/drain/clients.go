package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
)

const (
	sampleRate = 8000
	chunk      = 200 * time.Millisecond // of audio in a message
	pauseLimit = 300 * time.Millisecond // the longest pause of a client between two sessions
)

// outcome says how a session ended.
type outcome int

const (
	running  outcome = iota // it has not ended
	complete                // the client has all answers, and the connection was closed as it should be
	told                    // the proxy said that it goes away (1001)
	refused                 // it did not begin
	cut                     // anything else
	stopped                 // the end of this program
)

// record is one session. Its fields are guarded by the mutex of the clients.
type record struct {
	pod     *pod
	began   time.Time
	planned time.Duration // its length, if it is not ended before
	ended   time.Time
	outcome outcome
	err     error
}

// clients are devices that stream speech, each one session after the other.
type clients struct {
	// static
	to      *endpoints
	path    string
	longest time.Duration // of a session
	audio   []byte        // of the longest session

	group   sync.WaitGroup
	mu      sync.Mutex
	records []*record // guarded by mu
}

func newClients(to *endpoints, path string, longest time.Duration) *clients {
	return &clients{to: to, path: path, longest: longest, audio: make([]byte, 2*sampleRate*int(longest/time.Second+1))}
}

// start starts a number of clients, which run until ctx ends. The caller waits for them (group).
func (c *clients) start(ctx context.Context, n int) {
	for range n {
		c.group.Go(func() {
			for ctx.Err() == nil {
				c.session(ctx)
				timer := time.NewTimer(rand.N(pauseLimit))
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
			}
		})
	}
}

// length returns the length of a session: short ones, and ones up to the longest.
func (c *clients) length() time.Duration {
	if rand.IntN(2) == 0 {
		return (c.longest/50 + rand.N(c.longest/10)).Truncate(chunk) + chunk
	}
	return rand.N(c.longest).Truncate(chunk) + chunk
}

func (c *clients) session(ctx context.Context) {
	r := &record{pod: c.to.choose(), began: time.Now(), planned: c.length()}
	c.mu.Lock()
	c.records = append(c.records, r)
	c.mu.Unlock()
	samples := int(int64(sampleRate) * int64(r.planned) / int64(time.Second))
	s := speech.Session{
		URL: r.pod.url + c.path, SampleRate: sampleRate, PCM: c.audio[:2*samples], Chunk: chunk, Speed: 1,
		Heard: func(speech.Answer, time.Time) {},
	}
	err := s.Run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.ended, r.err = time.Now(), err
	switch {
	case err == nil:
		r.outcome = complete
	case websocket.CloseStatus(err) == websocket.StatusGoingAway:
		r.outcome = told
	case ctx.Err() != nil:
		r.outcome = stopped
	case isRefusal(err):
		r.outcome = refused
	default:
		r.outcome = cut
	}
}

// on returns the sessions of a pod that satisfy a condition.
func (c *clients) on(p *pod, condition func(r record) bool) []record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var some []record
	for _, r := range c.records {
		if r.pod == p && condition(*r) {
			some = append(some, *r)
		}
	}
	return slices.Clip(some)
}

func isRunning(r record) bool { return r.outcome == running }

// isRefusal reports whether a session could not begin. The library has no type for these errors.
func isRefusal(err error) bool { return strings.HasPrefix(err.Error(), "failed to WebSocket dial") }
