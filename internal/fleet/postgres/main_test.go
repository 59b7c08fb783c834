//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	configpostgres "github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// server is the one of all tests that need no other; nil if there can be none.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(ctx context.Context, s *pgtest.Server) error {
		server = s
		if err := pgtest.Execute(ctx, s.DSN("postgres"), "CREATE DATABASE migrated"); err != nil {
			return err
		}
		_, _, err := configpostgres.Migrate(ctx, s.DSN("migrated"))
		return err
	}))
}

var databases atomic.Int64

// newDatabase makes a database for a test as a copy of another one, and returns its name.
func newDatabase(t testing.TB, template string) string {
	t.Helper()
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	query(t, server.DSN("postgres"), "CREATE DATABASE "+name+" TEMPLATE "+template)
	return name
}

// migrated makes a database with the schema, as if the server that runs now had made it, and returns its DSN.
func migrated(t testing.TB) string {
	t.Helper()
	dsn := server.DSN(newDatabase(t, "migrated"))
	query(t, dsn, "UPDATE wsbouncer.fleet SET identity = "+identity)
	return dsn
}

func migrate(t testing.TB, dsn string) {
	t.Helper()
	if _, _, err := configpostgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
}

// query runs statements as psql would.
func query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	if err := pgtest.Execute(t.Context(), dsn, statements...); err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, dsn string) *Store {
	t.Helper()
	s, err := Open(dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.timeout = wstest.Timeout
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// counter counts statements.
type counter struct{ statements, changes atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	if data.SQL == writeStatement || data.SQL == prepared[writeStatement] {
		c.changes.Add(1)
	}
	return ctx
}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c *counter) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	c.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: data.SQL})
}

func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestContract(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	fleettest.Run(t, func(t *testing.T) fleettest.Place { return place(migrated(t)) })
}

// TestContractWithoutStatements is for connection poolers, with which prepared statements cannot be kept.
func TestContractWithoutStatements(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	fleettest.Run(t, func(t *testing.T) fleettest.Place { return place(migrated(t) + " default_query_exec_mode=exec") },
		"Cap", "Concurrent", "Leave", "Members", "Quiet")
}

func place(dsn string) fleettest.Place {
	return fleettest.Place{
		Open: func(t testing.TB) fleet.Store { return openStore(t, dsn) },
		Restart: func(t testing.TB) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), pgtest.StartTimeout)
			defer cancel()
			if err := errors.Join(server.Kill(), server.Start(ctx)); err != nil {
				t.Fatal(err)
			}
		},
	}
}
