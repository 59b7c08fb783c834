//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// server is the one of all tests that need no other; nil if there can be none.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(_ context.Context, s *pgtest.Server) error {
		server = s
		return nil
	}))
}

var databases atomic.Int64

// newDatabase makes a database for a test and returns its name.
func newDatabase(t testing.TB) string {
	t.Helper()
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	query(t, server.DSN("postgres"), "CREATE DATABASE "+name)
	return name
}

// migrated makes a database with the schema and returns its DSN.
func migrated(t testing.TB) string {
	t.Helper()
	dsn := server.DSN(newDatabase(t))
	if from, to, err := Migrate(t.Context(), dsn); err != nil || from != 0 || to == 0 {
		t.Fatalf("migrating: %d, %d, %v", from, to, err)
	}
	return dsn
}

// query runs statements as psql would.
func query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	if err := pgtest.Execute(t.Context(), dsn, statements...); err != nil {
		t.Fatal(err)
	}
}

func opener(dsn string) func(testing.TB, config.Options) config.Store {
	return func(t testing.TB, options config.Options) config.Store {
		t.Helper()
		s, err := Open(dsn, options)
		if err != nil {
			t.Fatal(err)
		}
		s.lockTimeout = wstest.Timeout
		return s
	}
}

// open opens a store that is closed at the test's end.
func open(t testing.TB, dsn string) *Store {
	t.Helper()
	s, err := Open(dsn, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.lockTimeout = wstest.Timeout
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	configtest.Run(t, func(t *testing.T) configtest.Place { return configtest.Place{Open: opener(migrated(t))} })
}

// TestContractWithoutStatements is for connection poolers, with which prepared statements cannot be kept.
func TestContractWithoutStatements(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	configtest.Run(t, func(t *testing.T) configtest.Place {
		return configtest.Place{Open: opener(migrated(t) + " default_query_exec_mode=exec")}
	})
}
