package config

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Poller polls a store for changes, from the first watcher on, and rings its [Bell] at each.
type Poller struct {
	Bell
	poll   func(ctx context.Context) (state string, err error) // static
	pause  time.Duration                                       // static: between two polls
	retry  time.Duration                                       // static: about as long, after an error
	start  sync.Once                                           // of run
	ctx    context.Context                                     // static: ends with Close
	cancel context.CancelFunc                                  // static
	done   sync.WaitGroup                                      // run
}

// NewPoller returns a poller that starts to poll when a store is watched. poll returns a text that is different for each state of the store. It is
// called from one goroutine, and returns soon after ctx ends. pause is the time between two polls, 0 if poll waits for a change itself, and retry about
// how long it is after an error.
func NewPoller(pause, retry time.Duration, poll func(ctx context.Context) (string, error)) *Poller {
	p := &Poller{poll: poll, pause: pause, retry: retry}
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
	p.start.Do(func() {}) // so that it no longer starts
	p.cancel()
	p.done.Wait()
	p.Bell.Close()
}

func (p *Poller) run() {
	known, failing := "", false
	for p.ctx.Err() == nil {
		state, err := p.poll(p.ctx)
		switch {
		case p.ctx.Err() != nil:
			return
		case err != nil:
			// Ring each time, so that watchers find out why: the store may have answered them in between.
			p.Ring()
			failing = true
			tasks.Sleep(p.ctx, p.retry/2+rand.N(p.retry)) // so that not all proxies retry at once
		default:
			if failing || state != known {
				p.Ring()
			}
			known, failing = state, false
			tasks.Sleep(p.ctx, p.pause)
		}
	}
}
