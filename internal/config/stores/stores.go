// Package stores opens the store that a database's name stands for, so that commands and the proxy agree on what
// --database means.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/memory"
	"github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
)

// Allowed says in words what a database may be, and Permanent what it may be for a command, with which [Memory] would end.
const (
	Allowed   = "a path (SQLite; ending in .yaml or .yml: a YAML file), sqlite:PATH, postgres://user@host/name, or :memory:"
	Permanent = "a path (SQLite; ending in .yaml or .yml: a YAML file), sqlite:PATH, or postgres://user@host/name"
)

// Memory is the database that ends with its store.
const Memory = ":memory:"

// Open returns the store that keeps a configuration there. Nothing is read, made or connected to before the store's first use: that
// says what is wrong with it, again and again until it is right. No error shows a password.
func Open(database string, options config.Options) (config.Store, error) {
	where, path, err := parse(database)
	if err != nil {
		return nil, err
	}
	switch where {
	case inPostgres:
		return notNil(postgres.Open(path, options))
	case inFile:
		return notNil(file.Open(path, options))
	case inMemory:
		return notNil(memory.New(config.NewContent(), options))
	}
	return notNil(sqlite.Open(path, options))
}

// notNil returns a store, or nil with an error: a nil pointer in an interface is not nil.
func notNil[S config.Store](s S, err error) (config.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Absolute returns a database as it may be shown, a file with its whole path: it means the same in every directory.
func Absolute(database string) string {
	where, path, err := parse(database)
	if err == nil && (where == inFile || where == inSQLite) {
		if path, err = filepath.Abs(path); err == nil {
			return path
		}
	}
	return Redact(database)
}

// Check checks a database's name, without looking whether it is there.
func Check(database string) error {
	_, _, err := parse(database)
	return err
}

// ErrNoSchema: the store is a file or memory, which has no schema to bring up to date.
var ErrNoSchema = errors.New("it has no schema")

// Migrate brings the database's schema to the version that this program knows, and makes it if there is none. It returns the
// versions that the schema had and has, or [ErrNoSchema].
func Migrate(ctx context.Context, database string) (from, to int64, err error) {
	where, path, err := parse(database)
	switch {
	case err != nil:
		return 0, 0, err
	case where == inPostgres:
		return postgres.Migrate(ctx, path)
	case where == inFile:
		return 0, 0, fmt.Errorf("%s is a YAML file: %w", path, ErrNoSchema)
	case where == inMemory:
		return 0, 0, fmt.Errorf("%s ends with the process: %w", path, ErrNoSchema)
	}
	return sqlite.Migrate(ctx, path)
}

// Grant gives roles of a PostgreSQL server the rights that they need in a migrated database: proxy those of a proxy, and admin those of
// commands that change the configuration. An empty name is none. Other databases have no roles: the caller asks [PostgreSQL] first.
func Grant(ctx context.Context, database, proxy, admin string) error {
	_, dsn, err := parse(database)
	if err != nil {
		return err
	}
	return postgres.Grant(ctx, dsn, proxy, admin)
}

// PostgreSQL reports whether the database is in PostgreSQL.
func PostgreSQL(database string) bool {
	where, _, err := parse(database)
	return err == nil && where == inPostgres
}

// SQLite returns the path of the SQLite file that the database is.
func SQLite(database string) (path string, ok bool) {
	where, path, err := parse(database)
	return path, err == nil && where == inSQLite
}

// Newest returns the newest version of the database's schema that this program knows; 0 if it has none.
func Newest(database string) int64 {
	switch where, _, err := parse(database); {
	case err != nil:
		return 0
	case where == inPostgres:
		return postgres.Newest()
	case where == inSQLite:
		return sqlite.Newest()
	}
	return 0
}

// Missing returns the path of the file that the database is in when there is none yet, which Open would make.
func Missing(database string) (path string, missing bool) {
	where, path, err := parse(database)
	if err != nil || where != inFile && where != inSQLite {
		return "", false
	}
	_, err = os.Stat(path)
	return path, errors.Is(err, fs.ErrNotExist)
}

// kind is where a configuration is kept.
type kind int

const (
	inSQLite kind = iota
	inFile
	inPostgres
	inMemory
)

var (
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`) // two letters at least: C:\ is none
	// settings are what psql takes instead of a URL: host=... dbname=...
	settings = regexp.MustCompile(`^\s*(host|hostaddr|port|user|password|passfile|dbname|service|sslmode|connect_timeout|application_name)\s*=`)
)

// parse says what a database's name stands for: where it is kept, and its path there.
func parse(database string) (where kind, path string, err error) {
	prefix := strings.ToLower(scheme.FindString(database))
	rest := database[len(prefix):]
	switch {
	case database == "":
		return 0, "", fmt.Errorf("the database is empty: use %s", Allowed)
	case database == Memory, prefix == "sqlite:" && rest == Memory:
		return inMemory, Memory, nil
	case prefix == "postgres:", prefix == "postgresql:", settings.MatchString(database):
		return inPostgres, database, nil
	case prefix == "sqlite:" && !strings.HasPrefix(rest, "//") && rest != "":
		return inSQLite, rest, nil
	case prefix == "file:" && strings.HasPrefix(rest, "///"): // RFC 8089, section 2
		return atPath(rest[2:])
	case prefix == "file:" && !strings.HasPrefix(rest, "//") && rest != "":
		return atPath(rest)
	case prefix == "":
		return atPath(database)
	}
	return 0, "", fmt.Errorf("invalid database %q: use %s", Redact(database), Allowed)
}

func atPath(path string) (kind, string, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return inFile, path, nil
	}
	return inSQLite, path, nil
}
