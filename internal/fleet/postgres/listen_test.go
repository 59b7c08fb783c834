package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/postgres/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// TestTells: a store says that it is told of changes while it listens, and never behind a connection pooler, which may lose what is told.
func TestTells(t *testing.T) {
	dsn := migrated(t)
	for _, behind := range []bool{false, true} {
		s := openStore(t, dsn)
		self := fleet.ID("a")
		s.self.Store(&self)
		if behind {
			s.config.DialFunc = pgtest.DialPooled
		}
		if s.Tells() {
			t.Error("it is told of changes before it listens")
		}
		ctx, cancel := context.WithCancel(t.Context())
		changed := s.Changed(ctx)
		for told, left := false, 200; !told; left-- {
			if left == 0 {
				t.Fatal("it does not listen")
			}
			query(t, dsn, "NOTIFY "+channel+", '*'")
			select {
			case <-changed:
				told = true
			case <-time.After(100 * time.Millisecond):
			}
		}
		if s.Tells() == behind {
			t.Errorf("behind a pooler: %v; it is told of changes: %v", behind, s.Tells())
		}
		cancel()
		for range changed { // until it is closed
		}
		if s.Tells() {
			t.Error("it is told of changes after it has stopped listening")
		}
	}
}
