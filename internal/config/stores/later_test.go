package stores

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/storetest"
)

// Once it is open it is like any other.
func TestLaterContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "config.db")
		return storetest.Place{Open: func(_ testing.TB, options config.Options) config.Store {
			return OpenLater(func(ctx context.Context) (config.Store, error) { return Open(ctx, path, options) })
		}}
	})
}

// While it cannot be opened, whoever watches is told to ask why, and when it can.
func TestLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.db")
	var open atomic.Bool
	none := errors.New("not yet")
	s := OpenLater(func(ctx context.Context) (config.Store, error) {
		if !open.Load() {
			return nil, none
		}
		return Open(ctx, path, config.Options{})
	})
	defer s.Close()
	if _, err := s.Load(t.Context()); !errors.Is(err, none) {
		t.Errorf("loading it: %v", err)
	}
	if _, err := s.Apply(t.Context(), config.Change{Who: "test"}); !errors.Is(err, none) {
		t.Errorf("changing it: %v", err)
	}
	changes := s.Watch(t.Context())
	for range 3 {
		<-changes
	}
	open.Store(true)
	for range changes {
		if _, err := s.Load(t.Context()); err == nil {
			break
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
