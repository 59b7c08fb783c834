package config

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Poller polls a store for changes, from the first watcher on, and rings its [Bell] at each.
type Poller struct {
	Bell
	// Poll waits for a change or for the next poll, and returns a text that is different for each state of the store. It is called
	// from one goroutine, and returns soon after ctx ends.
	Poll func(ctx context.Context) (state string, err error)
	// Retry is about how long to wait after an error before polling again.
	Retry time.Duration

	start  sync.Once          // of run
	ctx    context.Context    // static: ends with Close
	cancel context.CancelFunc // static
	done   sync.WaitGroup     // run
}

// NewPoller returns a poller that starts to poll when somebody watches.
func NewPoller(retry time.Duration, poll func(ctx context.Context) (string, error)) *Poller {
	p := &Poller{Poll: poll, Retry: retry}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Watch is [Store].Watch.
func (p *Poller) Watch(ctx context.Context) <-chan struct{} {
	watcher := p.Bell.Watch(ctx)
	p.start.Do(func() { p.done.Go(p.run) })
	return watcher
}

// Close ends polling and watching, and returns when both have ended.
func (p *Poller) Close() {
	p.start.Do(func() {}) // so that it does not start any more
	p.cancel()
	p.done.Wait()
	p.Bell.Close()
}

func (p *Poller) run() {
	known, failing := "", false
	for p.ctx.Err() == nil {
		state, err := p.Poll(p.ctx)
		switch {
		case p.ctx.Err() != nil:
			return
		case err != nil:
			// Ring each time, so that watchers find out why: the store may have answered them in between.
			p.Ring()
			failing = true
			sleep(p.ctx, p.Retry/2+rand.N(p.Retry)) // so that not all proxies retry at once
		default:
			if failing || state != known {
				p.Ring()
			}
			known, failing = state, false
		}
	}
}

// sleep waits for the time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
