package config

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Poller polls a store for changes once there is a watcher, and rings its [Bell].
type Poller struct {
	Bell
	// Look waits for a change, or for one poll interval, and returns a text that differs when the store's state differs. One goroutine
	// calls it, and it returns soon after ctx ends.
	Look func(ctx context.Context) (state string, err error)
	// Retry is roughly the time to wait after an error.
	Retry time.Duration

	start  sync.Once          // of run
	ctx    context.Context    // static: ends with Close
	cancel context.CancelFunc // static
	done   sync.WaitGroup     // run
}

// NewPoller returns a poller. It does not poll before there is a watcher.
func NewPoller(retry time.Duration, look func(ctx context.Context) (string, error)) *Poller {
	p := &Poller{Look: look, Retry: retry}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Watch is [Store].Watch.
func (p *Poller) Watch(ctx context.Context) <-chan struct{} {
	watcher := p.Bell.Watch(ctx)
	p.start.Do(func() { p.done.Go(p.run) })
	return watcher
}

// Close stops polling and closes all watchers, and returns when that is done.
func (p *Poller) Close() {
	p.start.Do(func() {}) // it does not begin any more
	p.cancel()
	p.done.Wait()
	p.Bell.Close()
}

func (p *Poller) run() {
	known, failing := "", false
	for p.ctx.Err() == nil {
		state, err := p.Look(p.ctx)
		switch {
		case p.ctx.Err() != nil:
			return
		case err != nil:
			// For those who watch to find out why. Each time, since they may have found the store well in between.
			p.Ring()
			failing = true
			sleep(p.ctx, p.Retry/2+rand.N(p.Retry)) // not all proxies at once
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
