// Package sqlite keeps a configuration in an SQLite database: a file that any number of processes may read and write.
//
// Opening a store does not open the file: the first use does, and creates or migrates the schema. The store sees changes by other
// processes, such as an UPDATE by the program sqlite3, within a second, by PRAGMA data_version.
//
// If the file is deleted or emptied while it is in use, the store fails and writes nothing, since it would confirm changes
// that are lost. If another database takes the file's place, the store opens that one.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// Store is a [config.Store] in an SQLite database.
type Store struct {
	*tables.Store // static

	path     string         // static
	readOnly bool           // static: the caller only reads
	known    bool           // static: there was a configuration before
	poller   *config.Poller // static
	closed   atomic.Bool

	mu     sync.Mutex
	handle *handle // guarded by mu: nil before the first use, and while the file cannot be used

	turn   chan struct{} // has room for one: a goroutine that opens a file holds the turn
	old    *handle       // owned by the holder of the turn: a handle that could not be closed yet
	opened int           // owned by the holder of the turn: number of handles so far
}

var _ config.Store = (*Store)(nil)

var dialect = tables.Dialect{Parameter: "?", Time: "at", Hour: "strftime('%Y-%m-%dT%H', 'now')", Newest: tables.Newest(embedded)}

// defaultPoll is how often the store checks whether the database has changed. busyTimeout is how long a writer waits for another.
const (
	defaultPoll = 250 * time.Millisecond
	busyTimeout = 5 * time.Second
)

// Open returns the store in a database's file. Its first use creates a missing file, unless options.Known says that there was one
// before; the directory must exist. The store only reads a file that it may not write.
func Open(path string, options config.Options) (*Store, error) {
	s := &Store{readOnly: options.ReadOnly, known: options.Known, turn: make(chan struct{}, 1)}
	var err error
	if s.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("database file: %w", err)
	}
	s.Store = tables.NewStore(s.transact, options, func() { s.poller.Ring() })
	s.poller = config.NewPoller(defaultPoll, defaultPoll, (&watcher{store: s}).poll)
	return s, nil
}

// open opens the file at the path, and migrates its schema. If there was a configuration before (known), it creates nothing.
func (s *Store) open(ctx context.Context, known bool) (*handle, error) {
	h, err := connect(ctx, s.path, s.readOnly, known)
	if err != nil {
		return nil, err
	}
	err = h.migrate(ctx, known)
	if err == nil {
		err = h.remember(ctx)
	}
	if err != nil {
		_ = h.close()
		return nil, err
	}
	s.opened++
	h.number = s.opened
	return h, nil
}

// use returns the handle of the file at the path. The first time, it opens the file. If another file has replaced the former one,
// it closes the former handle and opens the new file. The caller calls users.Done when it no longer uses the handle.
func (s *Store) use(ctx context.Context) (*handle, error) {
	if h, err := s.current(); h != nil || err != nil {
		return h, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if h, err := s.current(); h != nil || err != nil { // another goroutine has opened it meanwhile
		return h, err
	}
	s.mu.Lock()
	if s.handle != nil {
		s.old, s.handle = s.handle, nil
	}
	s.mu.Unlock()
	if s.old != nil {
		if err := s.old.leave(ctx); err != nil {
			return nil, err
		}
		s.old = nil
	}
	h, err := s.open(ctx, s.known || s.opened > 0)
	if err != nil {
		return nil, err
	}
	if s.closed.Load() { // Close waits for the turn
		return nil, errors.Join(config.ErrClosed, h.close())
	}
	h.users.Add(1)
	s.mu.Lock()
	s.handle = h
	s.mu.Unlock()
	return h, nil
}

// current returns the handle if the file at the path is still the one that it opened; otherwise nil.
func (s *Store) current() (*handle, error) {
	if s.closed.Load() {
		return nil, config.ErrClosed
	}
	s.mu.Lock()
	h := s.handle
	if h != nil {
		h.users.Add(1)
	}
	s.mu.Unlock()
	if h == nil || h.check() == nil {
		return h, nil
	}
	h.users.Done()
	return nil, nil
}

// explain translates an error of SQLite for an operator.
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
		return fmt.Errorf("%s is not a SQLite database or is damaged: %w", s.path, err)
	}
	return fmt.Errorf("database %s: %w", s.path, err)
}

// transact is a [tables.Transact].
func (s *Store) transact(ctx context.Context, writing bool, f func(*tables.Tables) (commit bool, err error)) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // the driver returns an error of its own
		}
		err = s.explain(err)
	}()
	h, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer h.users.Done()
	if writing && h.readOnly {
		return fmt.Errorf("%w: %s is not writable", config.ErrReadOnly, s.path)
	}
	conn, err := h.db.Conn(ctx)
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
	commit, err := f(&tables.Tables{Dialect: dialect, Tx: transaction{tx}})
	if err == nil && commit {
		if err = tx.Commit(); err == nil {
			if err = h.check(); err != nil {
				err = fmt.Errorf("the change may be lost: the database files were changed while it was made: %w", err)
			}
		}
	}
	return err
}

// Watch implements [config.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.poller.Watch(ctx) }

// Close implements [config.Store].
func (s *Store) Close() (err error) {
	if s.closed.Swap(true) {
		return nil
	}
	s.poller.Close()
	s.turn <- struct{}{} // a goroutine that opens a file meanwhile sees that the store is closed
	defer func() { <-s.turn }()
	s.mu.Lock()
	h := s.handle
	s.handle = nil
	s.mu.Unlock()
	if h != nil {
		err = h.close()
	}
	if s.old != nil {
		err = errors.Join(err, s.old.close())
	}
	return err
}
