//go:build linux

package main

import (
	"context"
	"sync"
	"time"
)

const (
	lookEvery = 50 * time.Millisecond // at the statistics
	rowEvery  = time.Second           // in the table
)

// watch looks at the proxy's statistics all the time, shows them each second, and keeps what matters.
type watch struct {
	address string
	table   *table
	stop    context.CancelFunc
	done    chan struct{} // closed when it has ended

	mu     sync.Mutex
	last   sample // guarded by mu
	err    error  // why there is none any more; guarded by mu
	looks  int    // guarded by mu
	most   [3]int // connections of each backend; guarded by mu
	fewest [3]int // leased ones since the mark; guarded by mu
}

func startWatch(ctx context.Context, address string, t *table) *watch {
	w := &watch{address: address, table: t, done: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	go w.run(ctx)
	return w
}

func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	row := time.Now()
	for ctx.Err() == nil {
		s, err := getStats(ctx, w.address)
		if ctx.Err() != nil {
			return
		}
		w.note(s, err)
		if err == nil && !s.at.Before(row) {
			row = row.Add(rowEvery)
			w.table.row(s)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (w *watch) note(s sample, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; err != nil {
		return
	}
	w.last = s
	w.looks++
	for i, b := range s.Backends {
		w.most[i] = max(w.most[i], b.used())
		w.fewest[i] = min(w.fewest[i], b.Leased)
	}
}

// mark begins to look anew for the fewest leased connections, and returns how many each backend has now.
func (w *watch) mark() [3]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, b := range w.last.Backends {
		w.fewest[i] = b.Leased
	}
	return w.fewest
}

// leased returns the fewest leased connections of each backend since the mark.
func (w *watch) leased() [3]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fewest
}

// now returns the last sample.
func (w *watch) now() (sample, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.err
}

// await waits until the statistics say what is awaited, and returns them.
func (w *watch) await(ctx context.Context, limit time.Duration, what string, condition func(sample) bool) (s sample, err error) {
	err = await(ctx, limit, what, func() (bool, error) {
		s, err = w.now()
		return err == nil && condition(s), err
	})
	return s, err
}
