package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// opened opens a store in a new file.
func opened(t *testing.T) (s config.Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "config.db")
	s = opener(path)(t, config.Options{})
	t.Cleanup(func() { _ = s.Close() })
	return s, path
}

// used opens a database and reads it once.
func used(t *testing.T, path string, options config.Options) error {
	t.Helper()
	s := opener(path)(t, options)
	_, err := s.Load(t.Context())
	return errors.Join(err, s.Close())
}

// query runs statements on a file as the program sqlite3 would: without our settings.
func query(t *testing.T, path string, statements ...string) error {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			return err
		}
	}
	return nil
}

// TestStraightSQL makes sure that what an operator does to rows is seen, and in the history.
func TestStraightSQL(t *testing.T) {
	s, path := opened(t)
	before := configtest.Fill(t, s)
	watcher := s.Watch(t.Context())
	<-watcher
	for name, statement := range map[string]string{
		"update": `UPDATE backends SET connections = 48, labels = '{"zone": "b"}' WHERE name = 'gpu-1'`,
		"insert": `INSERT INTO backends (name, service, url, weight) VALUES ('gpu-3', 'stt', 'ws://c/', 2)`,
		"delete": `DELETE FROM backends WHERE name = 'gpu-2'`,
		"none":   `UPDATE backends SET connections = connections`,
	} {
		if err := query(t, path, statement); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	timeout := time.After(30 * time.Second)
	for now := before; now.Version() != "4"; {
		select {
		case <-watcher:
		case <-timeout:
			t.Fatalf("the changes were not seen; version %s is", now.Version())
		}
		var err error
		if now, err = s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	revisions, err := s.History(t.Context(), 3)
	if err != nil || len(revisions) != 3 {
		t.Fatalf("%v, %v", revisions, err)
	}
	var got []string
	for _, r := range revisions {
		got = append(got, r.String())
	}
	for _, want := range []string{
		"(SQL): backend gpu-1: connections 32 -> 48; backend gpu-1: labels.zone a -> b",
		"(SQL): backend gpu-3: added (service stt, url ws://c/, weight 2.0)",
		"(SQL): backend gpu-2: removed (service stt, url ws://10.0.0.1:2700/, connections 32, labels.zone a)",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("the history is\n%s\nand should have\n%s", strings.Join(got, "\n"), want)
		}
	}
	content, err := s.At(t.Context(), before.Version())
	want := before.Content()
	if edits := config.Diff(&want, &content); err != nil || len(edits) > 0 {
		t.Errorf("what it was before differs: %v, %v", edits, err)
	}
}

func TestDatabaseRefuses(t *testing.T) {
	s, path := opened(t)
	before := configtest.Fill(t, s)
	for _, statement := range []string{
		`UPDATE backends SET connections = 0`,
		`UPDATE backends SET connections = 'many'`,
		`UPDATE backends SET state = 'off'`,
		`UPDATE backends SET labels = '[1]'`,
		`UPDATE backends SET headers = '{'`,
		`UPDATE backends SET url = 'http://a'`,
		`UPDATE backends SET url = NULL`,
		`UPDATE backends SET name = 'x' WHERE name = 'gpu-1'`,
		`UPDATE services SET path = 'v1'`,
		`UPDATE services SET balance = 'any'`,
		`INSERT INTO head (only_row, revision) VALUES (2, 1)`,
	} {
		if err := query(t, path, statement); err == nil {
			t.Errorf("%s: it was done", statement)
		}
	}
	if now, err := s.Load(t.Context()); err != nil || now.Version() != before.Version() {
		t.Errorf("version %s became %s, %v", before.Version(), now.Version(), err)
	}
}

// TestInvalidRows are such that the database does not notice.
func TestInvalidRows(t *testing.T) {
	s, path := opened(t)
	configtest.Fill(t, s)
	if err := query(t, path, `UPDATE services SET queue_timeout = 'soon'`, `UPDATE backends SET warm = 33 WHERE name = 'gpu-1'`,
		`UPDATE backends SET service = 'sst' WHERE name = 'gpu-2'`); err != nil {
		t.Fatal(err)
	}
	_, err := s.Load(t.Context())
	var problems config.Problems
	if !errors.As(err, &problems) || len(problems) != 3 {
		t.Fatalf("loading: %v", err)
	}
	for _, says := range []string{
		`service stt: queue-timeout: invalid duration "soon"`, `backend gpu-1: warm: invalid number "33": use a whole number from 0 to the cap of 32`,
		`backend gpu-2: service: unknown service "sst": did you mean "stt"?`,
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error is\n%v\nand should say\n%s", err, says)
		}
	}
	// One change can repair it. It must be about the field that could not be read, too, whose default may be less than what was meant, as of auth.
	repair := []config.Mutation{
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"warm": "3"}},
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-2", Values: config.Values{"service": "stt"}},
	}
	_, err = s.Apply(t.Context(), config.Change{Who: "x", Mutations: repair})
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Field != "queue-timeout" {
		t.Errorf("a change of other fields: %v", err)
	}
	repair = append(repair, config.Mutation{Verb: config.Set, Kind: config.KindService, Name: "stt", Values: config.Values{"queue-timeout": "5s"}})
	now, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: repair})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if edits := now.Diff(loaded); len(edits) > 0 || loaded.Version() != now.Version() {
		t.Errorf("written and loaded differ: %v", edits)
	}
}

func TestNewerSchema(t *testing.T) {
	s, path := opened(t)
	configtest.Fill(t, s)
	if err := query(t, path, `INSERT INTO schema_version (version_id, is_applied) VALUES (999, 1)`); err != nil {
		t.Fatal(err)
	}
	_, loading := s.Load(t.Context())
	_, writing := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-1"}}})
	opening := used(t, path, config.Options{})
	for i, err := range []error{loading, writing, opening} {
		if !errors.Is(err, config.ErrSchema) || !strings.Contains(err.Error(), fmt.Sprintf("it has version 999, and this program supports versions up to %d: use a newer wsbouncer", dialect.Newest)) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	s, path := opened(t)
	want := configtest.Fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	reader := opener(path)(t, config.Options{})
	defer reader.Close()
	if now, err := reader.Load(t.Context()); err != nil || now.Version() != want.Version() {
		t.Errorf("reading: %v", err)
	}
	if _, err := reader.Apply(t.Context(), config.Change{Who: "x"}); !errors.Is(err, config.ErrReadOnly) {
		t.Errorf("writing: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Apply(t.Context(), config.Change{Who: "x"}); err != nil {
		t.Errorf("writing once it may: %v", err)
	}
}

// Who only loads makes no database, and changes none.
func TestOpenReadOnly(t *testing.T) {
	s, path := opened(t)
	want := configtest.Fill(t, s)
	reader := opener(path)(t, config.Options{ReadOnly: true})
	defer reader.Close()
	if now, err := reader.Load(t.Context()); err != nil || now.Version() != want.Version() {
		t.Errorf("reading: %v", err)
	}
	if _, err := reader.Apply(t.Context(), config.Change{Who: "x"}); !errors.Is(err, config.ErrReadOnly) {
		t.Errorf("writing: %v", err)
	}
	none, empty := filepath.Join(t.TempDir(), "none.db"), filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{none: fs.ErrNotExist, empty: config.ErrSchema} {
		if err := used(t, path, config.Options{ReadOnly: true}); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

func TestLocked(t *testing.T) {
	s, path := opened(t)
	before := configtest.Fill(t, s)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	change := config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-1"}}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Apply(ctx, change); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("writing to a locked database for a short time: %v", err)
	}
	if now, err := s.Load(t.Context()); err != nil || now.Version() != before.Version() {
		t.Errorf("reading a locked database: %v", err)
	}
	if _, err := s.Apply(t.Context(), change); err == nil || !strings.Contains(err.Error(), "another process has kept the database") {
		t.Errorf("writing to a locked database: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), change); err != nil {
		t.Errorf("writing when it is no longer locked: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	directory := t.TempDir()
	text := filepath.Join(directory, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(directory, "other.db")
	if err := query(t, other, "CREATE TABLE services (a)"); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(directory, "none", "c.db"): "database directory",
		directory:                                "is a directory: use a file",
		text:                                     "is not a SQLite database or is damaged",
		other:                                    "belongs to another program",
	} {
		if err := used(t, path, config.Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOpenedAtOnce lets several open a file that is not there yet: one makes the schema, and the others wait.
func TestOpenedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.db")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := Open(path, config.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Load(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// number returns the number in the name of a migration.
func number(file string) int64 {
	n, _ := goose.NumericComponent(file)
	return n
}

// TestOlderSchema brings databases up to date that older programs have made, which had their own triggers: what is in them stays, what
// is new can be set and has a history, and the triggers are those of a new database.
func TestOlderSchema(t *testing.T) {
	files, err := fs.Glob(embedded, "migrations/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Compare(number(a), number(b))
	})
	for version := int64(1); version <= int64(len(files)); version++ {
		path := filepath.Join(t.TempDir(), "old.db")
		old, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		then := make(fstest.MapFS)
		for _, file := range files[:version] {
			data, err := fs.ReadFile(embedded, file)
			if err != nil {
				t.Fatal(err)
			}
			then[file] = &fstest.MapFile{Data: data}
		}
		if _, to, err := tables.Migrate(t.Context(), dialect, database.DialectSQLite3, old, then); err != nil || to != version {
			t.Fatalf("version %d: %d, %v", version, to, err)
		}
		for _, statement := range []string{
			`CREATE TRIGGER services_added AFTER INSERT ON services BEGIN
				UPDATE head SET revision = revision + 1;
				INSERT INTO revisions (revision, at, who) SELECT revision, '2026-01-02T03:04:05Z', '(SQL)' FROM head;
				INSERT INTO changes (revision, action, kind, name, field, became)
					SELECT revision, 'added', 'service', NEW.name, column1, column2 FROM head, (VALUES ('', NULL), ('path', NEW.path));
			END`,
			"INSERT INTO services (name, path) VALUES ('stt', '/v1')",
		} {
			if _, err := old.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		s := opener(path)(t, config.Options{})
		defer s.Close()
		_, err = s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{{
			Verb: config.Set, Kind: config.KindService, Name: "stt", Values: config.Values{"pass": "path,query"},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if service, _ := snapshot.Service("stt"); service.Path != "/v1" || !slices.Equal(service.Pass, []string{"path", "query"}) {
			t.Errorf("version %d: %+v", version, service)
		}
		var got []string
		history, err := s.History(t.Context(), 2)
		for _, r := range history {
			got = append(got, r.String())
		}
		want := []string{"x: service stt: pass (none) -> path,query", "(SQL): service stt: added (path /v1)"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("version %d: %q, %v", version, got, err)
		}
		if has := triggersOf(t, path); !maps.Equal(has, triggers()) {
			t.Errorf("version %d: the triggers are %v", version, has)
		}
	}
}

// Rows of an earlier version mean the same in this one, and so does their history.
func TestEarlierFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	old, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	earlier := make(fstest.MapFS)
	files, err := fs.Glob(embedded, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if data, err := fs.ReadFile(embedded, file); err == nil && number(file) <= 10 {
			earlier[file] = &fstest.MapFile{Data: data}
		}
	}
	if _, to, err := tables.Migrate(t.Context(), dialect, database.DialectSQLite3, old, earlier); err != nil || to != 10 {
		t.Fatal(to, err)
	}
	for _, statement := range []string{
		"INSERT INTO services (name, path, balance, hash_by, dial_parallel, message_rate) VALUES ('stt', '/v1', 'hash', 'header:B', 5, '10/s'), ('plain', '/v2', 'hash', NULL, 5, NULL)",
		"INSERT INTO tenants (name, message_rate) VALUES ('acme', '1/s')",
		// What the triggers of that version have noted.
		"UPDATE head SET revision = 4",
		"INSERT INTO revisions (revision, at, who) SELECT column1, '2026-01-02T03:04:05Z', '(SQL)' FROM (VALUES (1), (2), (3), (4))",
		"INSERT INTO changes (revision, action, kind, name, field, was, became) VALUES " +
			"(1, 'added', 'service', 'stt', '', NULL, NULL), (1, 'added', 'service', 'stt', 'path', NULL, '/v1'), " +
			"(1, 'added', 'service', 'stt', 'balance', NULL, 'hash'), (1, 'added', 'service', 'stt', 'hash_by', NULL, 'header:A'), " +
			"(1, 'added', 'service', 'plain', '', NULL, NULL), (1, 'added', 'service', 'plain', 'path', NULL, '/v2'), " +
			"(1, 'added', 'service', 'plain', 'balance', NULL, 'hash'), " +
			"(2, 'changed', 'service', 'stt', 'hash_by', 'header:A', 'header:B'), (2, 'changed', 'service', 'stt', 'dial_parallel', NULL, '5'), " +
			"(2, 'changed', 'service', 'stt', 'message_rate', NULL, '10/s'), " +
			"(3, 'changed', 'service', 'plain', 'dial_parallel', NULL, '5'), " +
			"(4, 'added', 'tenant', 'acme', '', NULL, NULL), (4, 'added', 'tenant', 'acme', 'message_rate', NULL, '1/s')",
	} {
		if _, err := old.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := opener(path)(t, config.Options{})
	defer s.Close()
	configtest.CheckEarlier(t, s)
}

// triggersOf returns the statements that made a database's triggers, by the triggers' names.
func triggersOf(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			t.Fatal(err)
		}
		all[name] = statement
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTriggersMissing is about a database whose migration was interrupted before its triggers were made.
func TestTriggersMissing(t *testing.T) {
	s, path := opened(t)
	configtest.Fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := query(t, path, "DROP TRIGGER services_changed", "DROP TRIGGER backends_added"); err != nil {
		t.Fatal(err)
	}
	if err := used(t, path, config.Options{}); err != nil {
		t.Fatal(err)
	}
	if has := triggersOf(t, path); !maps.Equal(has, triggers()) {
		t.Errorf("the triggers are %v", has)
	}
}
