package postgres

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
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
		if s.Notifies() {
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
		if s.Notifies() == behind {
			t.Errorf("behind a pooler: %v; it is told of changes: %v", behind, s.Notifies())
		}
		cancel()
		for range changed { // until it is closed
		}
		if s.Notifies() {
			t.Error("it is told of changes after it has stopped listening")
		}
	}
}

// TestListensAgainAtOnce: after an outage, a store listens again as soon as an exchange succeeds, however long it would wait otherwise.
func TestListensAgainAtOnce(t *testing.T) {
	p := newProxy(t, migrated(t), "a")
	p.store.firstRetry = time.Hour
	refused := make(chan struct{})
	var once sync.Once
	p.store.config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		once.Do(func() { err = net.ErrClosed; close(refused) })
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	p.store.Changed(t.Context())
	<-refused
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.store.Exchange(cut, &fleet.Report{ID: "a", Sequence: 1, Full: true}); err == nil {
		t.Fatal("an exchange whose context has ended was carried out")
	}
	p.claim(true, false, 0, 0)
	wstest.Eventually(t, "the store listens", p.store.Notifies)
}
