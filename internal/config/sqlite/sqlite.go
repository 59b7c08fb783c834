// Package sqlite keeps a configuration in an SQLite database: a file that any number of processes may read and write, or,
// with the path :memory:, memory of this process.
//
// Changes of other processes, such as an UPDATE by the program sqlite3, are seen within a second by PRAGMA data_version. The
// schema is made and brought up to date when the database is opened.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// Memory is the path of a database that ends with the store.
const Memory = ":memory:"

// Store is a [config.Store] in an SQLite database.
type Store struct {
	*tables.Store
	db       *sql.DB
	path     string
	readOnly bool
	newest   int64 // version of the schema that this program knows
	poller   *config.Poller
	watcher  *watcher // of the poller's goroutine
	closed   atomic.Bool
}

var _ config.Store = (*Store)(nil)

var dialect = tables.Dialect{Parameter: "?", Time: "at"}

// How often the database is asked whether it was changed, and how long a writer waits for another one.
const (
	defaultPoll = 250 * time.Millisecond
	busyTimeout = 5 * time.Second
)

// Open opens a database, and makes it if there is none; its directory must exist. A file that may not be written is opened
// for reading.
func Open(ctx context.Context, path string, options config.Options) (*Store, error) {
	s := &Store{path: path, readOnly: options.ReadOnly && path != Memory}
	s.Store = tables.NewStore(s.transact, options.Profiles, func() { s.poller.Ring() })
	if err := s.connect(); err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		_ = s.db.Close()
		return nil, s.explain(err)
	}
	every := options.Poll
	if every <= 0 {
		every = defaultPoll
	}
	s.watcher = &watcher{store: s, every: every}
	look := s.watcher.look
	if path == Memory {
		look = waitForEnd
	}
	s.poller = config.NewPoller(every, look)
	return s, nil
}

// connect opens the database, whose schema is not looked at yet.
func (s *Store) connect() error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if s.db, err = sql.Open("sqlite", name); err != nil {
		return fmt.Errorf("opening the database %s: %w", s.path, err)
	}
	if s.path == Memory { // each connection would have a memory of its own
		s.db.SetMaxOpenConns(1)
	} else {
		s.db.SetMaxOpenConns(8)
	}
	return nil
}

// name returns what the driver calls the database.
func (s *Store) name() (string, error) {
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "foreign_keys(1)",
	}}
	if s.path == Memory {
		return "file::memory:?" + pragmas.Encode(), nil
	}
	path, err := filepath.Abs(s.path)
	if err != nil {
		return "", fmt.Errorf("the database's file: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("the database's directory: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("the database's directory: %s is none", filepath.Dir(path))
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", fmt.Errorf("the database's file: %s is a directory; allowed is a file", path)
	case err != nil && s.readOnly:
		return "", fmt.Errorf("the database's file: %w", err)
	case err == nil && (s.readOnly || !writable(path, info)):
		s.readOnly = true
		pragmas.Set("mode", "ro")
	default:
		if err != nil { // SQLite would let everybody read it
			file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
			if err != nil {
				return "", fmt.Errorf("the database's file: %w", err)
			}
			_ = file.Close()
		}
		pragmas.Add("_pragma", "journal_mode(WAL)")
	}
	s.path = path
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: pragmas.Encode()}).String(), nil
}

// writable tells whether a file may be written, and its owner wants it to be.
func writable(path string, info os.FileInfo) bool {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = file.Close()
	return info.Mode().Perm()&0o222 != 0
}

// explain says what an error of SQLite means to an operator.
func (s *Store) explain(err error) error {
	var failure *sqlite.Error
	if err == nil || !errors.As(err, &failure) {
		return err
	}
	switch failure.Code() & 0xff { // the rest of it says more
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %s: %w", config.ErrReadOnly, s.path, err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("another process has kept the database %s locked for %v: %w", s.path, busyTimeout, err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%s is no SQLite database, or is damaged: %w", s.path, err)
	}
	return fmt.Errorf("the database %s: %w", s.path, err)
}

// transact is a [tables.Transact].
func (s *Store) transact(ctx context.Context, writing bool, f func(*tables.Tables, tables.Writer) (commit bool, err error)) (err error) {
	if writing && s.readOnly {
		return fmt.Errorf("%w: %s may not be written", config.ErrReadOnly, s.path)
	}
	if s.closed.Load() {
		return config.ErrClosed
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // the driver has other words for it
		}
		err = s.explain(err)
	}()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		if s.closed.Load() {
			return config.ErrClosed
		}
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	tx, err := begin(ctx, conn, writing)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	t := &transaction{tx, s.newest}
	commit, err := f(t.tables(), t)
	if err == nil && commit {
		err = tx.Commit()
	}
	return err
}

// Watch implements [config.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.poller.Watch(ctx) }

// Close implements [config.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.poller.Close()
	s.watcher.close()
	return s.db.Close()
}
