package stores

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// reopenAfter is about how long a database is left alone that could not be opened.
const reopenAfter = time.Second

// OpenLater returns a store that is opened when it is used, again and again until it can be: for a proxy that has a copy of what
// the database said, and need not wait for it. open is what opens it.
func OpenLater(open func(context.Context) (config.Store, error)) config.Store {
	s := &later{open: open}
	s.poller = config.NewPoller(reopenAfter, s.look)
	return s
}

// later is what OpenLater returns.
type later struct {
	open   func(context.Context) (config.Store, error)
	poller *config.Poller

	// Of the poller's goroutine.
	changes <-chan struct{}
	seen    int

	mu     sync.Mutex
	store  config.Store // guarded by mu: nil as long as it could not be opened
	closed bool         // guarded by mu
}

// get returns the store, which it opens if it must. Who opens it holds no lock meanwhile, since that may take as long as ctx lets it;
// of two who do at the same time one was for nothing.
func (s *later) get(ctx context.Context) (config.Store, error) {
	if store, err := s.opened(nil); store != nil || err != nil {
		return store, err
	}
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	used, err := s.opened(store)
	if used != store {
		_ = store.Close()
	}
	return used, err
}

// opened returns the store, which is the one given if there is none yet; nil for none.
func (s *later) opened(store config.Store) (config.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, config.ErrClosed
	}
	if s.store == nil {
		s.store = store
	}
	return s.store, nil
}

// look waits for a change of the store, or says why it cannot be opened.
func (s *later) look(ctx context.Context) (string, error) {
	if s.changes == nil {
		store, err := s.get(ctx)
		if err != nil {
			return "", err
		}
		s.changes = store.Watch(ctx)
	}
	select {
	case _, ok := <-s.changes:
		if !ok {
			return "", config.ErrClosed
		}
		s.seen++
		return strconv.Itoa(s.seen), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Load implements [config.Store].
func (s *later) Load(ctx context.Context) (*config.Snapshot, error) {
	store, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return store.Load(ctx)
}

// Watch implements [config.Store].
func (s *later) Watch(ctx context.Context) <-chan struct{} { return s.poller.Watch(ctx) }

// Apply implements [config.Store].
func (s *later) Apply(ctx context.Context, change config.Change) (*config.Snapshot, error) {
	store, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return store.Apply(ctx, change)
}

// History implements [config.Store].
func (s *later) History(ctx context.Context, limit int) ([]config.Revision, error) {
	store, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	return store.History(ctx, limit)
}

// At implements [config.Store].
func (s *later) At(ctx context.Context, version string) (config.Content, error) {
	store, err := s.get(ctx)
	if err != nil {
		return config.Content{}, err
	}
	return store.At(ctx, version)
}

// Close implements [config.Store].
func (s *later) Close() error {
	s.mu.Lock()
	store := s.store
	s.closed = true
	s.mu.Unlock()
	s.poller.Close()
	if store == nil {
		return nil
	}
	return store.Close()
}
