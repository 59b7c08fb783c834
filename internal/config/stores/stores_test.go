package stores

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/memory"
	"github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		database string
		where    kind
		path     string
	}{
		{"config.db", inSQLite, "config.db"},
		{"/var/lib/wsbouncer/config", inSQLite, "/var/lib/wsbouncer/config"},
		{"sqlite:config.db", inSQLite, "config.db"},
		{"sqlite:/a/b.yaml", inSQLite, "/a/b.yaml"},
		{"file:config.db", inSQLite, "config.db"},
		{`C:\wsbouncer\config.db`, inSQLite, `C:\wsbouncer\config.db`},
		{"./host=a", inSQLite, "./host=a"},
		{"config.yaml", inFile, "config.yaml"},
		{"a/config.YML", inFile, "a/config.YML"},
		{"file:config.yaml", inFile, "config.yaml"},
		{"file:///etc/config.yaml", inFile, "/etc/config.yaml"},
		{":memory:", inMemory, ":memory:"},
		{"sqlite::memory:", inMemory, ":memory:"},
		{"postgres://a@b/c", inPostgres, "postgres://a@b/c"},
		{"PostgreSQL://a@b/c", inPostgres, "PostgreSQL://a@b/c"},
		{"host=/run/postgresql dbname=x", inPostgres, "host=/run/postgresql dbname=x"},
	} {
		where, path, err := parse(c.database)
		if err := Check(c.database); err != nil {
			t.Errorf("%s: %v", c.database, err)
		}
		if where != c.where || path != c.path || err != nil {
			t.Errorf("%s: %v, %q, %v; want %v, %q", c.database, where, path, err, c.where, c.path)
		}
	}
}

func TestInvalidDatabases(t *testing.T) {
	for database, says := range map[string]string{
		"":                            "database is empty: use a path",
		"mysql://root:s3cret@db/x":    `invalid database "mysql://root:xxxxx@db/x": use a path`,
		"sqlite:":                     `invalid database "sqlite:"`,
		"sqlite:///config.db":         `invalid database "sqlite:///config.db"`,
		"file://host/config.yaml":     `invalid database "file://host/config.yaml"`,
		"postgres://a:s3cret@b:port/": "invalid database: use postgres://",
	} {
		_, err := Open(database, config.Options{})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %s", database, err, says)
		}
		if again := Check(database); !strings.HasPrefix(database, "postgres:") && (again == nil || again.Error() != err.Error()) {
			t.Errorf("%s: opening says %v, checking %v", database, err, again)
		}
		if _, _, again := Migrate(t.Context(), database); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: opening says %v, migrating %v", database, err, again)
		}
	}
}

func TestOpen(t *testing.T) {
	directory := t.TempDir()
	for database, is := range map[string]func(config.Store) bool{
		filepath.Join(directory, "a.db"):       func(s config.Store) bool { _, ok := s.(*sqlite.Store); return ok },
		filepath.Join(directory, "a.yaml"):     func(s config.Store) bool { _, ok := s.(*file.Store); return ok },
		":memory:":                             func(s config.Store) bool { _, ok := s.(*memory.Store); return ok },
		"postgres://nobody@127.0.0.1:1/nobody": func(s config.Store) bool { _, ok := s.(*postgres.Store); return ok },
	} {
		s, err := Open(database, config.Options{})
		if err != nil {
			t.Errorf("%s: %v", database, err)
			continue
		}
		if !is(s) {
			t.Errorf("%s: it is %T", database, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: closing: %v", database, err)
		}
	}
}

// While what it keeps cannot be read, a watcher is woken to ask why, and when it can.
func TestUseFails(t *testing.T) {
	for _, name := range []string{"a.db", "a.yaml"} {
		directory := filepath.Join(t.TempDir(), "none")
		s, err := Open(filepath.Join(directory, name), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Load(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: loading it: %v", name, err)
		}
		if _, err := s.Apply(t.Context(), config.Change{Who: "test"}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: changing it: %v", name, err)
		}
		changes := s.Watch(t.Context())
		for range 3 {
			<-changes
		}
		if err := os.Mkdir(directory, 0o750); err != nil {
			t.Fatal(err)
		}
		for range changes {
			if _, err := s.Load(t.Context()); err == nil {
				break
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrClosed) {
			t.Errorf("%s: after Close: %v", name, err)
		}
	}
}

// What cannot be opened is nil, not an interface with a nil pointer in it.
func TestOpenFails(t *testing.T) {
	if s, err := Open("postgres://a@b:port/", config.Options{}); s != nil || err == nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestMigrate(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "a.db")
	if from, to, err := Migrate(t.Context(), path); from != 0 || to < 1 || err != nil {
		t.Errorf("a new database: from %d to %d, %v", from, to, err)
	}
	if from, to, err := Migrate(t.Context(), path); from < 1 || from != to || err != nil {
		t.Errorf("once more: from %d to %d, %v", from, to, err)
	}
	for _, database := range []string{":memory:", filepath.Join(directory, "a.yaml")} {
		if _, _, err := Migrate(t.Context(), database); !errors.Is(err, ErrNoSchema) {
			t.Errorf("%s: %v", database, err)
		}
	}
	empty := filepath.Join(directory, "empty.db")
	if err := os.WriteFile(empty, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Migrate(t.Context(), empty); !errors.Is(err, config.ErrReadOnly) {
		t.Errorf("a file that is not writable: %v", err)
	}
}

func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if got, missing := Missing("sqlite:" + path); !missing || got != path {
		t.Errorf("before there is a file: %s, %v", got, missing)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, database := range []string{path, ":memory:", "postgres://a@b/c", "mysql://x"} {
		if _, missing := Missing(database); missing {
			t.Errorf("%s is missing", database)
		}
	}
}

func TestRedact(t *testing.T) {
	for database, want := range map[string]string{
		"config.db":             "config.db",
		":memory:":              ":memory:",
		"postgres://a@b:5432/c": "postgres://a@b:5432/c",
		"postgres://a:s3cret@b:5432/c?sslmode=require":       "postgres://a:xxxxx@b:5432/c?sslmode=require",
		"postgres://a:s3cret@x@b/c":                          "postgres://a:xxxxx@b/c",
		"postgres://a:s3cret/?#x@b/c":                        "postgres://a:xxxxx@b/c",
		"postgres://b/c?user=a&password=s3cret":              "postgres://b/c?user=a&password=xxxxx",
		"postgres://b/c?pass%77ord=s3cret&a=1":               "postgres://b/c?pass%77ord=xxxxx&a=1",
		"postgres://b/c?sslpassword=s3cret":                  "postgres://b/c?sslpassword=xxxxx",
		"host=b user=a password=s3cret dbname=c":             "host=b user=a password=xxxxx dbname=c",
		"password = 's3cret \\' s3cret' user=a":              "password = xxxxx user=a",
		"user=a password='s3cret s3cret":                     "user=a password=xxxxx",
		"host=b\tPASSWORD=s3cret":                            "host=b\tPASSWORD=xxxxx",
		"postgres://a:@b/c":                                  "postgres://a:xxxxx@b/c",
		"postgres://h1:5432,h2:5432/c?target_session_attrs=": "postgres://h1:5432,h2:5432/c?target_session_attrs=",
	} {
		if got := Redact(database); got != want {
			t.Errorf("%s: %s; want %s", database, got, want)
		}
	}
}
