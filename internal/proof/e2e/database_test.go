//go:build unix

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver, for straight SQL

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// database is where a proxy's configuration is kept.
type database struct {
	t      testing.TB
	name   string // for --database
	schema string // before names of tables
	exec   func(statement string) error
}

// sqliteDatabase makes an SQLite database for the time of the test.
func sqliteDatabase(t testing.TB) *database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.db")
	d := &database{t: t, name: path}
	d.command("migrate")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	d.exec = func(statement string) error {
		_, err := db.Exec(statement)
		return err
	}
	return d
}

// startPostgres starts a PostgreSQL server for the time of the test.
func startPostgres(t testing.TB) *pgtest.Server {
	t.Helper()
	server, err := pgtest.New()
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	restartPostgres(t, server)
	return server
}

// restartPostgres starts a server that does not run.
func restartPostgres(t testing.TB, server *pgtest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// postgresDatabase makes a database on the server, with the schema. Statements reach it over the server's socket.
func postgresDatabase(t testing.TB, server *pgtest.Server, name string) *database {
	t.Helper()
	run := func(database, statement string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
		defer cancel()
		return pgtest.Execute(ctx, server.DSN(database), statement)
	}
	if err := run("postgres", "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	d := &database{
		t: t, name: server.URL(pgtest.User, pgtest.Password, name), schema: "wsbouncer.",
		exec: func(statement string) error { return run(name, statement) },
	}
	d.command("migrate")
	return d
}

// command runs a command of the binary straight on the database; it must succeed.
func (d *database) command(args ...string) runResult {
	d.t.Helper()
	return mustRun(d.t, append(args, "--database", d.name)...)
}

// mustRun runs a command of the binary, which must succeed. As an operator would, it repeats one that another process has kept from the
// database for too long: on a busy disk, a transaction may take seconds.
func mustRun(t testing.TB, args ...string) runResult {
	t.Helper()
	r := runCommand(t, args...)
	for end := wstest.Deadline(); r.status == 1 && strings.Contains(r.stderr, " locked for ") && time.Now().Before(end); {
		r = runCommand(t, args...)
	}
	if r.status != 0 {
		t.Fatalf("wsbouncer %s: status %d\n%s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	}
	return r
}

// sql runs a statement, which must succeed. A word in braces is the name of a table.
func (d *database) sql(format string, args ...any) {
	d.t.Helper()
	if err := d.trySQL(format, args...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) trySQL(format string, args ...any) error {
	statement := fmt.Sprintf(strings.NewReplacer("{", d.schema, "}", "").Replace(format), args...)
	if err := d.exec(statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// serve starts a proxy that has its configuration from the database.
func (d *database) serve(flags ...string) *proxy {
	d.t.Helper()
	return startProxy(d.t, append([]string{"--database", d.name, "--state-directory", d.t.TempDir()}, flags...)...)
}

// awaitState waits until the configuration is in a state, for a reason that has these words.
func (p *proxy) awaitState(state string, words ...string) stats {
	p.t.Helper()
	var s stats
	defer func() {
		if p.t.Failed() {
			p.t.Logf("configuration: %+v", s.Configuration)
		}
	}()
	wstest.Eventually(p.t, fmt.Sprintf("the configuration is %s: %q", state, words), func() bool {
		s = p.stats()
		return s.Configuration.State == state && containsAll(s.Configuration.Reason, words...)
	})
	return s
}

// backend returns the statistics of a backend by its name; the zero value if there is none.
func (p *proxy) backend(name string) backendStats {
	p.t.Helper()
	for _, b := range p.stats().Backends {
		if b.Name == name {
			return b
		}
	}
	return backendStats{}
}

// awaitCap waits until a backend has that cap, and its pool is full.
func (p *proxy) awaitCap(name string, cap int) {
	p.t.Helper()
	wstest.Eventually(p.t, fmt.Sprintf("%s has %d connections", name, cap), func() bool {
		b := p.backend(name)
		return b.Cap == cap && b.Idle+b.Leased == cap
	})
}
