//go:build unix

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

func remove(backend string) config.Change {
	return config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindBackend, Name: backend}}}
}

// until waits until a watcher's store loads what is wanted.
func until(t *testing.T, s config.Store, watcher <-chan struct{}, what string, ok func(*config.Snapshot, error) bool) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case <-watcher:
			if ok(s.Load(t.Context())) {
				return
			}
		case <-timeout:
			now, err := s.Load(t.Context())
			t.Fatalf("%s was not seen; loading: %v, %v", what, now, err)
		}
	}
}

func has(backend string, connections int) func(*config.Snapshot, error) bool {
	return func(s *config.Snapshot, err error) bool {
		if err != nil {
			return false
		}
		b, _ := s.Backend(backend)
		return b.Connections == connections
	}
}

// TestStraightSQL makes sure that what an operator does to rows is seen and in the history, one revision for a transaction.
func TestStraightSQL(t *testing.T) {
	dsn := migrated(t)
	s := open(t, dsn)
	before := configtest.Fill(t, s)
	watcher := s.Watch(t.Context())
	query(t, dsn, `UPDATE wsbouncer.backends SET connections = 48`)
	until(t, s, watcher, "an update", has("gpu-2", 48))
	query(t, dsn, `BEGIN`, `SET LOCAL wsbouncer.who = 'alice'`, `SET LOCAL wsbouncer.why = 'new model'`,
		`INSERT INTO wsbouncer.backends (name, service, url, weight, labels) VALUES ('gpu-3', 'stt', 'ws://c/', 2, '{"zone": "b"}')`,
		`UPDATE wsbouncer.backends SET connections = 50 WHERE name = 'gpu-3'`,
		`DELETE FROM wsbouncer.backends WHERE name = 'gpu-2'`, `COMMIT`)
	until(t, s, watcher, "a transaction", has("gpu-3", 50))
	query(t, dsn, `UPDATE wsbouncer.backends SET connections = connections`, `BEGIN`, `DELETE FROM wsbouncer.backends`, `ROLLBACK`)

	now, err := s.Load(t.Context())
	if err != nil || now.Version() != "3" {
		t.Fatalf("version %v, %v", now, err)
	}
	revisions, err := s.History(t.Context(), 2)
	if err != nil || len(revisions) != 2 {
		t.Fatalf("%v, %v", revisions, err)
	}
	for i, want := range []string{
		"alice: backend gpu-2: removed (service stt, url ws://10.0.0.1:2700/, connections 48, labels.zone a); " +
			"backend gpu-3: added (service stt, url ws://c/, weight 2, labels.zone b); backend gpu-3: connections 100 -> 50",
		"postgres: backend gpu-1: connections 32 -> 48; backend gpu-2: connections 32 -> 48",
	} {
		if got := revisions[i].String(); got != want {
			t.Errorf("revision %d is\n%s\nand should be\n%s", i, got, want)
		}
	}
	if revisions[0].Why != "new model" {
		t.Errorf("it was made for %q", revisions[0].Why)
	}
	content, err := s.At(t.Context(), before.Version())
	want := before.Content()
	if edits := config.Diff(&want, &content); err != nil || len(edits) > 0 {
		t.Errorf("what it was before differs: %v, %v", edits, err)
	}
}

func TestDatabaseRefuses(t *testing.T) {
	dsn := migrated(t)
	s := open(t, dsn)
	before := configtest.Fill(t, s)
	for _, statement := range []string{
		`UPDATE wsbouncer.backends SET connections = 0`,
		`UPDATE wsbouncer.backends SET state = 'off'`,
		`UPDATE wsbouncer.backends SET labels = '[1]'`,
		`UPDATE wsbouncer.backends SET url = 'http://a'`,
		`UPDATE wsbouncer.backends SET service = 'sst'`,
		`UPDATE wsbouncer.backends SET name = 'x' WHERE name = 'gpu-1'`,
		`DELETE FROM wsbouncer.services`,
		`TRUNCATE wsbouncer.backends`,
		`INSERT INTO wsbouncer.head (revision) VALUES (1)`,
	} {
		if err := pgtest.Execute(t.Context(), dsn, statement); err == nil {
			t.Errorf("%s: it was done", statement)
		}
	}
	if now, err := s.Load(t.Context()); err != nil || now.Version() != before.Version() {
		t.Errorf("version %s became %v, %v", before.Version(), now, err)
	}
}

func TestInvalidRows(t *testing.T) {
	dsn := migrated(t)
	s := open(t, dsn)
	configtest.Fill(t, s)
	watcher := s.Watch(t.Context())
	query(t, dsn, `UPDATE wsbouncer.services SET queue_timeout = 'soon'`, `UPDATE wsbouncer.backends SET warm = 33 WHERE name = 'gpu-1'`)
	until(t, s, watcher, "the errors", func(_ *config.Snapshot, err error) bool {
		return err != nil && strings.Contains(err.Error(), `service stt: queue-timeout: invalid duration "soon"`) &&
			strings.Contains(err.Error(), `backend gpu-1: warm: invalid number "33": use a whole number from 0 to the cap of 32`) && errors.As(err, new(config.Problems))
	})
	query(t, dsn, `UPDATE wsbouncer.services SET queue_timeout = '5s'`, `UPDATE wsbouncer.backends SET warm = NULL`)
	until(t, s, watcher, "that they were put right", func(_ *config.Snapshot, err error) bool { return err == nil })
}

// TestRoles tries out the roles that docs/reference/configuration.md recommends.
func TestRoles(t *testing.T) {
	name := newDatabase(t)
	suffix := "_" + name // roles belong to the server, not to the database
	owner, reader, writer := "owner"+suffix, "reader"+suffix, "writer"+suffix
	admin := server.DSN(name)
	for _, role := range []string{owner, reader, writer} {
		query(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret-%s'", role, role))
	}
	as := func(role string) string { return server.URL(role, "secret-"+role, name) }
	query(t, admin, "CREATE SCHEMA wsbouncer AUTHORIZATION "+owner)
	if _, _, err := Migrate(t.Context(), as(owner)); err != nil {
		t.Fatalf("migrating as the schema's owner: %v", err)
	}
	for range 2 { // the second time changes nothing
		if err := Grant(t.Context(), as(owner), reader, writer); err != nil {
			t.Fatalf("granting rights as the schema's owner: %v", err)
		}
	}
	if err := Grant(t.Context(), as(owner), "nobody\"; x"+suffix, ""); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("granting rights to a role that does not exist: %v", err)
	}
	if err := Grant(t.Context(), as(reader), "", reader); err == nil || !strings.Contains(err.Error(), "only the role that owns the schema can") {
		t.Errorf("the reader gives itself rights: %v", err)
	}

	w, r := open(t, as(writer)), open(t, as(reader))
	configtest.Fill(t, w)
	watcher := r.Watch(t.Context())
	until(t, r, watcher, "the content", has("gpu-1", 32))
	if revisions, err := r.History(t.Context(), 10); err != nil || len(revisions) != 1 {
		t.Errorf("the history as the reader: %v, %v", revisions, err)
	}
	if _, err := r.Apply(t.Context(), remove("gpu-1")); !errors.Is(err, config.ErrReadOnly) {
		t.Errorf("writing as the reader: %v", err)
	}
	query(t, as(reader), "DELETE FROM wsbouncer.fleet_beats", "DELETE FROM wsbouncer.usage")
	query(t, as(writer), "UPDATE wsbouncer.backends SET connections = 48")
	until(t, r, watcher, "the writer's SQL", has("gpu-1", 48))
	for _, statement := range []string{
		"DELETE FROM wsbouncer.changes", "UPDATE wsbouncer.revisions SET who = 'nobody'", "UPDATE wsbouncer.head SET revision = 0",
		"ALTER TABLE wsbouncer.backends DISABLE TRIGGER ALL", "DROP TABLE wsbouncer.changes", "CREATE TABLE wsbouncer.x ()",
	} {
		if err := pgtest.Execute(t.Context(), as(writer), statement); err == nil {
			t.Errorf("the writer may %s", statement)
		}
	}
	query(t, admin, fmt.Sprintf("GRANT %s TO %s", writer, reader))
	if _, err := r.Apply(t.Context(), remove("gpu-1")); err != nil {
		t.Errorf("writing as the reader that may act as the writer: %v", err)
	}
}

// Rows of an earlier version mean the same in this one, and so does their history.
func TestEarlierFields(t *testing.T) {
	dsn := server.DSN(newDatabase(t))
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	earlier := make(fstest.MapFS)
	files, err := fs.Glob(embedded, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		n, err := goose.NumericComponent(file)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := fs.ReadFile(embedded, file); err == nil && n <= 11 {
			earlier[file] = &fstest.MapFile{Data: data}
		}
	}
	query(t, dsn, "CREATE SCHEMA wsbouncer")
	if _, to, err := tables.Migrate(t.Context(), dialect, database.DialectPostgres, db, earlier); err != nil || to != 11 {
		t.Fatal(to, err)
	}
	query(t, dsn, "INSERT INTO wsbouncer.services (name, path, balance, hash_by) VALUES ('stt', '/v1', 'hash', 'header:A'), ('plain', '/v2', 'hash', NULL)",
		"UPDATE wsbouncer.services SET hash_by = 'header:B', dial_parallel = 5, message_rate = '10/s' WHERE name = 'stt'",
		"UPDATE wsbouncer.services SET dial_parallel = 5 WHERE name = 'plain'",
		"INSERT INTO wsbouncer.tenants (name, message_rate) VALUES ('acme', '1/s')")
	if _, _, err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	configtest.CheckEarlier(t, open(t, dsn))
}

func TestSchema(t *testing.T) {
	dsn := server.DSN(newDatabase(t))
	s := open(t, dsn)
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrSchema) || !strings.Contains(err.Error(), "run wsbouncer migrate") {
		t.Errorf("an empty database: %v", err)
	}
	var all sync.WaitGroup
	for range 4 { // concurrently: one creates it, and the others wait
		all.Go(func() {
			if _, to, err := Migrate(t.Context(), dsn); err != nil || to != Newest() {
				t.Errorf("migrating: %d, %v", to, err)
			}
		})
	}
	all.Wait()
	if _, err := s.Load(t.Context()); err != nil {
		t.Errorf("after migrating: %v", err)
	}
	query(t, dsn, "INSERT INTO wsbouncer.schema_version (version_id, is_applied) VALUES (999, true)")
	_, loading := s.Load(t.Context())
	_, _, migrating := Migrate(t.Context(), dsn)
	for i, err := range []error{loading, migrating} {
		if !errors.Is(err, config.ErrSchema) || !strings.Contains(err.Error(), fmt.Sprintf("it has version 999, and this program supports versions up to %d", Newest())) {
			t.Errorf("call %d with a newer schema: %v", i, err)
		}
	}
}

// TestPasswords are not shown, whatever is wrong.
func TestPasswords(t *testing.T) {
	name := newDatabase(t)
	for _, dsn := range []string{
		server.URL(pgtest.User, "s3cret-wrong", name),
		"postgres://me:s3cret@127.0.0.1:1/x?connect_timeout=1",
		"postgres://me:s3cret@[::1/x",
		"postgres://me:s3:cr@et@host:port/x",
		"host=127.0.0.1 password='s3cret port=x",
		"host=127.0.0.1 password=s3cret sslmode=perhaps",
		"s3cret",
	} {
		s, err := Open(dsn, config.Options{})
		if err == nil {
			_, err = s.Load(t.Context())
			_ = s.Close()
		}
		_, _, migrating := Migrate(t.Context(), dsn)
		for _, err := range []error{err, migrating} {
			if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "et@host") {
				t.Errorf("%s: %v", dsn, err)
			}
		}
	}
}

// TestLocked has a transaction that keeps the configuration's lock.
func TestLocked(t *testing.T) {
	dsn := migrated(t)
	s := open(t, dsn)
	s.lockTimeout = 200 * time.Millisecond
	before := configtest.Fill(t, s)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range []string{"BEGIN", "UPDATE wsbouncer.backends SET connections = 7 WHERE name = 'gpu-1'"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := s.Load(t.Context()); err != nil || now.Version() != before.Version() {
		t.Errorf("reading meanwhile: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Apply(ctx, remove("gpu-2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("writing meanwhile for a short time: %v", err)
	}
	if _, err := s.Apply(t.Context(), remove("gpu-2")); err == nil || !strings.Contains(err.Error(), "another transaction has kept the configuration locked") {
		t.Errorf("writing meanwhile: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	stale := remove("gpu-2")
	stale.Expect = before.Version()
	if _, err := s.Apply(t.Context(), stale); !errors.As(err, new(*config.ConflictError)) {
		t.Errorf("writing for the version before the transaction: %v", err)
	}
	if _, err := s.Apply(t.Context(), remove("gpu-2")); err != nil {
		t.Errorf("writing afterwards: %v", err)
	}
}

// TestWritersAndSQL lets the store and straight SQL write the same rows at once: none may see a deadlock.
func TestWritersAndSQL(t *testing.T) {
	dsn := migrated(t)
	s := open(t, dsn)
	configtest.Fill(t, s)
	const each = 20
	var all sync.WaitGroup
	all.Go(func() {
		for n := range each {
			change := config.Change{Who: "x", Mutations: []config.Mutation{
				{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-2", Values: config.Values{"labels.store": fmt.Sprint(n)}},
				{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"labels.store": fmt.Sprint(n)}},
			}}
			if _, err := s.Apply(t.Context(), change); err != nil {
				t.Error(err)
			}
		}
	})
	for _, order := range []string{"gpu-1 gpu-2", "gpu-2 gpu-1"} {
		all.Go(func() {
			first, second, _ := strings.Cut(order, " ")
			for n := range each {
				set := func(name string) string {
					return fmt.Sprintf(`UPDATE wsbouncer.backends SET labels = labels || '{"%s": "%d"}' WHERE name = '%s'`, strings.ReplaceAll(order, " ", "."), n, name)
				}
				if err := pgtest.Execute(t.Context(), dsn, "BEGIN", set(first), set(second), "COMMIT"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	now, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now.Version() != fmt.Sprint(1+3*each) {
		t.Errorf("%d changes made version %s", 1+3*each, now.Version())
	}
	for name, b := range now.Backends() {
		if len(b.Labels) != 4 {
			t.Errorf("%s has the labels %v", name, b.Labels)
		}
	}
}

// TestMadeAnew drops the tables and makes them anew: an empty configuration was not asked for, and what is added to it
// would become all there is. A whole configuration can be put there.
func TestMadeAnew(t *testing.T) {
	dsn := migrated(t)
	fresh, err := Open(dsn, config.Options{Known: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.Close() }()
	if _, err := fresh.Load(t.Context()); !errors.Is(err, config.ErrMissing) {
		t.Errorf("tables that were never written to, where there was a configuration before: %v", err)
	}
	s := open(t, dsn)
	configtest.Fill(t, s)
	if _, err := fresh.Load(t.Context()); err != nil {
		t.Errorf("after it was written to: %v", err)
	}
	query(t, dsn, "DROP SCHEMA wsbouncer CASCADE")
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrSchema) {
		t.Errorf("without tables: %v", err)
	}
	if _, _, err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrMissing) || !strings.Contains(err.Error(), "tables are new") {
		t.Errorf("with new tables: %v", err)
	}
	added := config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Add, Kind: config.KindService, Name: "mt", Values: config.Values{"path": "/mt"}},
	}}
	if _, err := s.Apply(t.Context(), added); !errors.Is(err, config.ErrMissing) {
		t.Errorf("adding a service to new tables: %v", err)
	}
	content := configtest.Small()
	if _, err := s.Apply(t.Context(), config.Change{Who: "x", Expect: "0", Content: &content}); err != nil {
		t.Errorf("putting all of it into new tables: %v", err)
	}
	if now, err := s.Load(t.Context()); err != nil || now.Version() != "1" {
		t.Errorf("after that: %v, %v", now, err)
	}
}

// TestCalm: the version is read often only behind a connection pooler, which may lose announcements.
func TestCalm(t *testing.T) {
	for _, behind := range []bool{false, true} {
		s := open(t, server.DSN("postgres"))
		w := *s.watcher
		defer w.close()
		if behind {
			w.config = w.config.Copy()
			w.config.DialFunc = pgtest.DialPooled
		}
		if err := w.connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.direct == behind || w.every >= w.calm {
			t.Errorf("behind a pooler: %v; announcements arrive: %v; reads every %s, or %s", behind, w.direct, w.every, w.calm)
		}
	}
}

// TestPooler says what to do where a connection pooler, such as PgBouncer, gives each transaction another connection.
func TestPooler(t *testing.T) {
	err := new(Store).explain(fmt.Errorf("reading the schema version: %w", &pgconn.PgError{Code: "26000"}))
	if !strings.Contains(err.Error(), "add default_query_exec_mode=exec") || errors.Is(err, config.ErrUnreachable) {
		t.Error(err)
	}
}
