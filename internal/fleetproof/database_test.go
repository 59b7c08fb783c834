//go:build linux

package fleetproof

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/config/postgres/pgtest"
)

// A standby that is cut off from its primary misses the last commits when it takes its place.
func TestFailOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := startDatabase(ctx, 0)
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.prepareStandby(ctx); err != nil {
		t.Fatal(err)
	}
	execute := func(statement string) {
		t.Helper()
		if err := d.execute(ctx, d.primary, databaseName, statement); err != nil {
			t.Fatal(err)
		}
	}
	read := func(s *pgtest.Server) (n int) {
		conn, err := pgx.Connect(ctx, s.DSN(databaseName))
		if err != nil {
			return -1
		}
		defer conn.Close(ctx)
		if err := conn.QueryRow(ctx, "SELECT max(n) FROM numbers").Scan(&n); err != nil {
			return -1
		}
		return n
	}
	execute("CREATE TABLE numbers (n int)")
	execute("INSERT INTO numbers VALUES (1)")
	for read(d.standby) != 1 {
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	d.replication.become(refused)
	execute("INSERT INTO numbers VALUES (2)")
	if err := d.failOver(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if n := read(d.primary); n != 1 {
		t.Errorf("after the failover, the last commit is %d", n)
	}
	execute("INSERT INTO numbers VALUES (3)")
	if err := d.restart(ctx, d.primary.Destroy, 0); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, d.operator())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(ctx)
}
