package config

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Poller looks again and again whether a store has changed, from the first watcher on, and rings its [Bell].
type Poller struct {
	Bell
	// Look waits as long as it takes for a change, or for the time of a poll, and returns what tells this state of the store
	// from others. It is called from one goroutine, and returns soon after ctx ends.
	Look func(ctx context.Context) (state string, err error)
	// Retry is about how long to wait before looking again after an error.
	Retry time.Duration

	start  sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// NewPoller returns a poller that does not look before somebody watches.
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

// Close ends looking and watching, and returns when it has.
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
