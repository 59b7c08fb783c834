package config

import (
	"context"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Bell tells the watchers of a store about an event. Stores embed one; the zero value is ready. Its methods may be called from any
// goroutine, and never wait for a watcher.
type Bell struct {
	mu       sync.Mutex
	watchers map[chan struct{}]func() bool // with a function that stops waiting for the context
	closed   bool
}

// Watch returns a channel that receives a value at once and with each Ring; it holds at most one. It is closed when ctx ends or
// with Close.
func (b *Bell) Watch(ctx context.Context) <-chan struct{} {
	watcher := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || ctx.Err() != nil {
		close(watcher)
		return watcher
	}
	watcher <- struct{}{}
	if b.watchers == nil {
		b.watchers = make(map[chan struct{}]func() bool)
	}
	b.watchers[watcher] = context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, ok := b.watchers[watcher]; ok {
			delete(b.watchers, watcher)
			close(watcher)
		}
	})
	return watcher
}

// Ring gives every watcher a value.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for watcher := range b.watchers {
		tasks.Wake(watcher)
	}
}

// Close closes all channels.
func (b *Bell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for watcher, stop := range b.watchers {
		stop()
		close(watcher)
	}
	b.watchers = nil
}
