//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestServerFails follows a watcher through a crash of the server, its return, its move to another port, and a time in which
// it can only be read.
func TestServerFails(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	own, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.StartTimeout)
	defer cancel()
	start := func() {
		t.Helper()
		if err := own.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}

	free, err := netip.ParseAddrPort(wstest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	here, there := own.Port, int(free.Port())
	dsn := fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable", pgtest.User, pgtest.Password, here, there)

	// A store can be opened before the server runs.
	s := open(t, dsn)
	watcher := s.Watch(t.Context())
	unreachable := func(_ *config.Snapshot, err error) bool { return err != nil }
	until(t, s, watcher, "that there is no server", unreachable)
	start()
	if _, _, err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	until(t, s, watcher, "the server", func(_ *config.Snapshot, err error) bool { return err == nil })
	configtest.Fill(t, s)
	until(t, s, watcher, "the content", has("gpu-1", 32))

	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, s, watcher, "the crash", unreachable)
	start()
	until(t, s, watcher, "the server's return", has("gpu-1", 32))
	query(t, own.DSN("postgres"), "UPDATE wsbouncer.backends SET connections = 48")
	until(t, s, watcher, "a change after the return", has("gpu-1", 48))

	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	own.Port = there
	start()
	query(t, own.DSN("postgres"), "UPDATE wsbouncer.backends SET connections = 50")
	until(t, s, watcher, "a change on the other port", has("gpu-1", 50))

	query(t, own.DSN("postgres"), "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	s.poller.Ring() // it takes effect without an announcement
	until(t, s, watcher, "that it can only be read", func(*config.Snapshot, error) bool {
		s.poller.Ring()
		_, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
			{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"connections": fmt.Sprint(60 + time.Now().Second()%2)}},
		}})
		return errors.Is(err, config.ErrReadOnly)
	})
	if _, err := s.Load(t.Context()); err != nil {
		t.Errorf("reading from a server that can only be read: %v", err)
	}
}
