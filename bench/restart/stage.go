//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	sampleInterval = 50 * time.Millisecond // between two readings of the statistics
	rowInterval    = time.Second           // between two rows of the table
	stepTimeout    = 30 * time.Second      // for a step that normally takes a moment
)

// stage is the processes, and what their statistics have shown. It is owned by one goroutine.
type stage struct {
	options options
	binary  string
	servers [3]*child.Process
	proxy   *child.Proxy

	begun    time.Time
	nextRow  time.Time
	rows     int       // printed since the start
	last     api.Stats // the latest sample
	at       time.Time // when it was taken
	readings int
	most     [3]int // connections of each backend
	fewest   [3]int // leased connections of each backend since the mark
}

// startServer starts one of the echo servers. It counts its connections but sets them no limit, so that it shows whether the
// proxy exceeds the cap.
func (s *stage) startServer(ctx context.Context, i int, address string) (err error) {
	s.servers[i], err = child.StartSimulator(ctx, s.binary, address, "echo")
	return err
}

// sample reads the statistics and prints them each second.
func (s *stage) sample(ctx context.Context) error {
	now, err := s.proxy.Stats(ctx)
	if err != nil {
		return errors.Join(err, s.proxy.Failure())
	}
	if len(now.Backends) != len(s.servers) {
		return fmt.Errorf("the proxy has %d backends, not %d", len(now.Backends), len(s.servers))
	}
	s.last, s.at = *now, time.Now()
	s.readings++
	for i := range now.Backends {
		b := &now.Backends[i]
		s.most[i] = max(s.most[i], b.Used())
		s.fewest[i] = min(s.fewest[i], b.Leased)
	}
	if !s.at.Before(s.nextRow) {
		s.nextRow = s.at.Add(rowInterval)
		s.row()
	}
	return nil
}

// mark starts to count the fewest leased connections again, and returns how many each backend has now.
func (s *stage) mark() [3]int {
	for i := range s.fewest {
		s.fewest[i] = s.last.Backends[i].Leased
	}
	return s.fewest
}

// errTooLate is returned by until when the condition did not hold in time.
var errTooLate = errors.New("not in time")

// until samples the statistics until the condition holds.
func (s *stage) until(ctx context.Context, timeout time.Duration, what string, condition func() bool) error {
	for end := time.Now().Add(timeout); ; {
		if err := s.sample(ctx); err != nil {
			return err
		}
		if condition() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w, within %v: %s", errTooLate, timeout, what)
		}
		if err := child.Pause(ctx, sampleInterval); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
	}
}

// pass samples the statistics while some time passes.
func (s *stage) pass(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return s.until(ctx, d+stepTimeout, "the time passes", func() bool { return !time.Now().Before(end) })
}

// full reports whether a backend's pool has its full size, and no connection is being dialed, reset or closed.
func full(b *api.Backend) bool {
	return b.Usable && b.Idle == min(b.Warm, b.Cap-b.Leased) && b.Idle+b.Leased == b.Used()
}

// allFull reports whether all pools are full.
func (s *stage) allFull() bool {
	for i := range s.last.Backends {
		if !full(&s.last.Backends[i]) {
			return false
		}
	}
	return true
}

// wave is a group of clients that arrive and stream together.
type wave struct {
	end    context.CancelFunc // ends it early
	steady chan struct{}      // closed when all clients stream
	ended  chan struct{}      // closed when all have left; result and err are set before
	result *load.Result
	err    error
}

// startWave starts a wave, and returns when all its clients stream. The caller ends it.
func (s *stage) startWave(ctx context.Context, clients int, duration time.Duration) (*wave, error) {
	w := &wave{steady: make(chan struct{}), ended: make(chan struct{})}
	o := load.Options{
		URLs: []string{"ws://" + s.proxy.Listen + "/"}, Connections: clients, Ramp: time.Duration(clients) * time.Millisecond,
		Rate: s.options.rate, Size: s.options.size, Text: true, Duration: duration,
	}
	ctx, w.end = context.WithCancel(ctx)
	go func() {
		defer close(w.ended)
		w.result, w.err = load.Run(ctx, o, func(p load.Progress) {
			if p.Begins && p.Phase == load.Steady {
				close(w.steady)
			}
		})
	}()
	err := s.until(ctx, o.Ramp+stepTimeout, "all clients stream", func() bool { return closed(w.steady) || closed(w.ended) })
	if err == nil && !closed(w.steady) {
		err = errors.Join(errors.New("the clients do not stream"), w.err)
	}
	if err != nil {
		w.end()
		<-w.ended
	}
	return w, err
}

// finish samples the statistics until the wave is over, and returns its result.
func (s *stage) finish(ctx context.Context, w *wave, timeout time.Duration) (*load.Result, error) {
	if err := s.until(ctx, timeout, "the clients leave", func() bool { return closed(w.ended) }); err != nil {
		return nil, err
	}
	return w.result, w.err
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

var peakField = regexp.MustCompile(`simulated server ends.* peak=(\d+)`)

// peak stops a server and returns the maximum number of connections that it has ever had; -1 if the server does not say.
func peak(server *child.Process) int {
	server.Stop()
	m := peakField.FindStringSubmatch(server.Output())
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// stop ends all processes.
func (s *stage) stop() {
	if s.proxy != nil {
		s.proxy.Stop()
	}
	for _, server := range s.servers {
		if server != nil {
			server.Stop()
		}
	}
}
