package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// handle is the database in one file. SQLite opens a file by its path for each new connection, and open connections keep using a file
// that was deleted or replaced. So a handle remembers the file's identity, and keeps one connection open (pin) so that no other file
// can have the same identity.
type handle struct {
	db       *sql.DB        // static
	path     string         // static
	readOnly bool           // static
	locked   bool           // static: readOnly only because this process may not write the file
	file     os.FileInfo    // static after remember
	wal      os.FileInfo    // static after remember: FILE-wal, which has the latest writes; nil if there is none
	pin      *sql.Conn      // static
	number   int            // static: counts the handles of a store
	users    sync.WaitGroup // of the handle
}

// connect opens the file at a path, and creates it if it may. It does not read the content.
func connect(ctx context.Context, path string, readOnly, known bool) (h *handle, err error) {
	h = &handle{path: path, readOnly: readOnly}
	if h.file, err = h.prepare(known); err != nil {
		return nil, err
	}
	parameters := url.Values{
		"_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "foreign_keys(1)"},
		"mode": {"rw"}, // SQLite must not create a missing file again
	}
	if h.readOnly {
		parameters.Set("mode", "ro")
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: parameters.Encode()}
	if h.db, err = sql.Open("sqlite", name.String()); err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", path, err)
	}
	h.db.SetMaxOpenConns(8)
	if h.pin, err = h.db.Conn(ctx); err == nil {
		err = h.check()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// prepare returns the file at the path. It creates a missing file, unless there was one before (known): then a missing or empty file is
// an error.
func (h *handle) prepare(known bool) (os.FileInfo, error) {
	if info, err := os.Stat(filepath.Dir(h.path)); err != nil {
		return nil, fmt.Errorf("database directory: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("database directory: %s is not a directory", filepath.Dir(h.path))
	}
	info, err := os.Stat(h.path)
	switch {
	case known && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s no longer exists", config.ErrMissing, h.path)
	case errors.Is(err, fs.ErrNotExist) && !h.readOnly:
		file, err := fileowner.Open(h.path, 0o640) // SQLite would create a file that everybody can read
		if err != nil {
			return nil, fmt.Errorf("database file: %w", err)
		}
		defer file.Close()
		return file.Stat()
	case err != nil:
		return nil, fmt.Errorf("database file: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("database file: %s is a directory: use a file", h.path)
	case known && info.Size() == 0: // SQLite would remove what it finds beside it
		return nil, fmt.Errorf("%w: %s is empty (0 bytes)", config.ErrMissing, h.path)
	}
	if _, err := fileowner.Follow(h.path); err != nil {
		return nil, fmt.Errorf("database file: %w", err)
	}
	h.locked = !h.readOnly && !writable(h.path, info)
	h.readOnly = h.readOnly || h.locked
	return info, nil
}

// writable reports whether this process may write the file, and the file's permissions let at least one user write it. The
// permissions count because root may write any file.
func writable(path string, info os.FileInfo) bool {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = file.Close()
	return info.Mode().Perm()&0o222 != 0
}

// check returns an error unless the file at the path is still this one.
func (h *handle) check() error {
	now, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s no longer exists", config.ErrMissing, h.path)
	case err != nil:
		return fmt.Errorf("database file: %w", err)
	case !os.SameFile(h.file, now):
		return fmt.Errorf("%s was replaced by another file", h.path)
	case now.Size() == 0 && h.file.Size() > 0:
		return fmt.Errorf("%w: %s is empty (0 bytes)", config.ErrMissing, h.path)
	case h.locked && !fileowner.SameRights(h.file, now):
		return fmt.Errorf("the rights of %s have changed", h.path)
	}
	if h.wal != nil { // it exists for as long as the pin does
		if wal, err := os.Stat(h.path + walSuffix); err != nil || !os.SameFile(h.wal, wal) {
			return fmt.Errorf("%s%s was deleted or replaced", h.path, walSuffix)
		}
	}
	return nil
}

// walSuffix is the suffix of the name of the file that has the latest writes.
const walSuffix = "-wal"

// remember records the file's identity, now that it has a schema. The pin reads something, since a connection that never has cannot make
// a checkpoint.
func (h *handle) remember(ctx context.Context) error {
	var version int
	if err := h.pin.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version); err != nil {
		return err
	}
	if err := h.check(); err != nil {
		return err
	}
	if wal, err := os.Stat(h.path + walSuffix); err == nil && !h.readOnly {
		h.wal = wal
	}
	var err error
	h.file, err = os.Stat(h.path)
	return err
}

// checkpointTimeout is how long leave waits for others to stop using the file.
const checkpointTimeout = time.Second

// leave closes the handle of a file that is no longer at the path. The latest writes are in FILE-wal, which SQLite would take for
// that of the next database at the path. So leave first moves them to the file where they belong.
func (h *handle) leave(ctx context.Context) error {
	h.users.Wait() // each has a time limit
	if !h.readOnly {
		busy, err := h.checkpoint(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && busy:
			return fmt.Errorf("another process still uses the file that was at %s before: the present file is not opened until that process has ended", h.path)
		} // after any other error nothing can be saved: the file is damaged
	}
	return h.close()
}

// checkpoint moves the content of FILE-wal to the file and empties FILE-wal, unless others use it.
func (h *handle) checkpoint(ctx context.Context) (busy bool, err error) {
	if err := setBusyTimeout(ctx, h.pin, checkpointTimeout); err != nil {
		return false, err
	}
	var others, pages, moved int
	err = h.pin.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&others, &pages, &moved)
	return others != 0, err
}

// close closes the connections to the database.
func (h *handle) close() error {
	if h.pin != nil {
		_ = h.pin.Close() // it goes back to the pool
	}
	return h.db.Close()
}
