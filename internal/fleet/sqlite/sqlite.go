// Package sqlite keeps the ledger of a fleet in an SQLite file, for proxies on one host that share a state directory or a configuration's
// database.
//
// All proxies of an earlier boot are dead, so a file from one is emptied, and nothing has to survive the machine: the file is written
// without waiting for the disk. A proxy that is alone writes nothing while nothing changes; it notices others by PRAGMA data_version.
//
// If the file is damaged, it is put aside, and a new ledger begins in which no proxy gets places before all have had the time to say what
// they hold. The same is so if the file is deleted while it is in use. On a network file system, whose locks cannot be trusted and
// which other hosts may use, the file is refused.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Options are what a store is made with.
type Options struct {
	Log  *slog.Logger  // may be nil
	Poll time.Duration // how often it looks for changes by other processes; 0 for four times a second
}

const (
	defaultPoll = 250 * time.Millisecond
	// callTimeout is how long a call may take.
	callTimeout = 5 * time.Second
)

// Store is a [fleet.Store].
type Store struct {
	path string        // static
	log  *slog.Logger  // static
	poll time.Duration // static
	// timeout is how long a call may take; static.
	timeout time.Duration
	boot    string // static: identifies the machine's boot; empty where there is no such text

	closed          atomic.Bool
	watchers        sync.WaitGroup
	end             context.CancelFunc // ends the watchers
	ended           context.Context    //nolint:containedctx // until Close
	turn            chan struct{}      // has room for one: a call that uses what follows holds the turn
	handle          *handle            // owned by the holder of the turn; nil while the file is not open
	ledger          *fleet.Ledger      // owned by the holder of the turn: as it was read or written last; nil if it must be read
	data            int64              // owned by the holder of the turn: the file's data version that ledger belongs to
	revision        int64              // owned by the holder of the turn: that of ledger
	lost            bool               // owned by the holder of the turn: the ledger that this proxy used is gone
	answeredVersion int64              // owned by the holder of the turn: the ledger's version that the last answer had
}

var _ fleet.Store = (*Store)(nil)

var (
	errClosed = errors.New("the store of grants is closed")
	errBusy   = fmt.Errorf("%w: other calls have not returned", fleet.ErrUnreachable)
)

// Open returns the store in a file. It does not open the file: the first use does, and makes a missing file; the directory must exist.
func Open(path string, o Options) (*Store, error) {
	s := &Store{log: o.Log, poll: o.Poll, timeout: callTimeout, boot: machine.Boot(), turn: make(chan struct{}, 1)}
	var err error
	if s.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("the ledger's file: %w", err)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.poll <= 0 {
		s.poll = defaultPoll
	}
	s.ended, s.end = context.WithCancel(context.Background())
	return s, nil
}

// identity is that of the ledger's keeper in the protocol.
func (s *Store) identity() string { return bootPrefix + s.boot }

// bootPrefix is that of all identities but that of a lost ledger.
const bootPrefix = "boot "

// call runs f while it holds the turn, with the file open. If the file turns out to be damaged, it is put aside, and f runs again.
func (s *Store) call(ctx context.Context, f func(context.Context) error) (err error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return cmp.Or(caller.Err(), errBusy)
	}
	defer func() { <-s.turn }()
	if s.closed.Load() {
		return errClosed
	}
	attempt := func() error {
		err := s.use(ctx)
		if err == nil {
			err = f(ctx)
		}
		if err != nil && !errors.Is(err, fleet.ErrUnknown) {
			s.ledger = nil
		}
		return err
	}
	if err = attempt(); isDamage(err) {
		if err = s.putAside(err); err == nil {
			err = attempt()
		}
	}
	switch {
	case err != nil && caller.Err() != nil:
		return caller.Err() // the driver returns its own error
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: another process has kept %s locked for %v", fleet.ErrUnreachable, s.path, s.timeout)
	}
	return s.explain(err)
}

// use makes sure that the file at the path is open.
func (s *Store) use(ctx context.Context) error {
	if s.handle != nil {
		if s.handle.isCurrent() {
			return nil
		}
		s.log.Warn("the file of the fleet's ledger was deleted or replaced while it was in use: grants are frozen until all proxies have said what they hold", "file", s.path)
		s.leave()
		s.lost = true
	}
	h, err := s.connect(ctx)
	if err != nil {
		return err
	}
	s.handle, s.lost = h, false
	return nil
}

// leave closes the file.
func (s *Store) leave() {
	if s.handle != nil {
		s.handle.close()
		s.handle, s.ledger = nil, nil
	}
}

// isDamage reports whether an error says that the file is no database of SQLite, or is damaged.
func isDamage(err error) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	code := failure.Code() & 0xff
	return code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT
}

// explain translates an error for an operator.
func (s *Store) explain(err error) error {
	var failure *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		switch failure.Code() & 0xff { // the rest of it says more
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
			return fmt.Errorf("%w: %s: %w", fleet.ErrNoRights, s.path, err)
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
			return fmt.Errorf("%w: %s: %w", fleet.ErrDisk, s.path, err)
		}
		return fmt.Errorf("%w: %s: %w", fleet.ErrUnreachable, s.path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", fleet.ErrNoRights, err)
	case machine.Disk(err):
		return fmt.Errorf("%w: %w", fleet.ErrDisk, err)
	}
	return err
}

// Exchange implements [fleet.Store].
func (s *Store) Exchange(ctx context.Context, r *fleet.Report) (answer *fleet.Answer, err error) {
	if err := storage.CheckReport(r); err != nil {
		return nil, err
	}
	fresh := storage.NewEpoch()
	err = s.call(ctx, func(ctx context.Context) error {
		answer, err = s.exchange(ctx, r, fresh)
		return err
	})
	return answer, err
}

func (s *Store) exchange(ctx context.Context, r *fleet.Report, fresh fleet.Epoch) (*fleet.Answer, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	answer, changes := storage.Exchange(s.ledger, r, s.identity(), fresh, time.Now())
	if !changes.Anything() {
		after := changes.After
		isAlone := len(after.Members) == 1 // no other wants to see its heartbeats
		if !answer.Stale && !isAlone {
			if err := s.handle.writeHeartbeat(ctx, after.Members[r.ID]); err != nil {
				return nil, err
			}
		}
		s.ledger, s.answeredVersion = after, after.Version
		return answer, nil
	}
	err := s.handle.transact(ctx, func() error {
		if err := s.read(ctx); err != nil { // another process may have written since
			return err
		}
		answer, changes = storage.Exchange(s.ledger, r, s.identity(), fresh, time.Now())
		return s.handle.write(ctx, changes, r.ID, s.revision+1)
	})
	if err != nil {
		return nil, err
	}
	s.ledger, s.answeredVersion = changes.After, changes.After.Version
	s.revision++
	return answer, nil
}

// read makes sure that ledger is what the file has.
func (s *Store) read(ctx context.Context) error {
	data, err := s.handle.dataVersion(ctx)
	if err != nil || s.ledger != nil && data == s.data {
		return err
	}
	revision, err := s.handle.revision(ctx)
	if err != nil {
		return err
	}
	if s.ledger != nil && revision == s.revision {
		l := s.ledger.Clone()
		if err := s.handle.readHeartbeats(ctx, l); err != nil {
			return err
		}
		s.ledger, s.data = l, data
		return nil
	}
	l, err := s.handle.read(ctx)
	if err != nil {
		return err
	}
	s.ledger, s.data, s.revision = l, data, revision
	return nil
}

// Forget implements [fleet.Store].
func (s *Store) Forget(ctx context.Context, id fleet.ID) error {
	return s.call(ctx, func(ctx context.Context) error {
		var changes *storage.Changes
		err := s.handle.transact(ctx, func() error {
			if err := s.read(ctx); err != nil {
				return err
			}
			if changes = storage.Forget(s.ledger, id, s.identity(), storage.NewEpoch()); changes == nil {
				return fmt.Errorf("%w: %s", fleet.ErrUnknown, id)
			}
			return s.handle.write(ctx, changes, "", s.revision+1)
		})
		if err == nil {
			s.ledger = changes.After
			s.revision++
		}
		return err
	})
}

// Ledger implements [fleet.Store].
func (s *Store) Ledger(ctx context.Context) (ledger *fleet.Ledger, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		if err := s.read(ctx); err != nil {
			return err
		}
		ledger = s.ledger
		return nil
	})
	return ledger, err
}

// Changed implements [fleet.Store].
func (s *Store) Changed(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	s.watchers.Go(func() {
		defer close(changed)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ended, cancel)()
		var told int64 // the version that was notified of, and has no answer yet; 0 for none. A new file counts its versions anew
		for range tasks.Every(ctx, s.poll) {
			switch version, news := s.news(ctx); {
			case !news:
				told = 0
			case version != told || version == deleted:
				told = version
				tasks.Wake(changed)
			}
		}
	})
	return changed
}

// Notifies implements [fleet.Store].
func (s *Store) Notifies() bool { return true }

// deleted is the version of a ledger whose file is no longer there. That is news at each look until an exchange has found out.
const deleted = -1

// news reports whether others have changed something since the last answer, and the ledger's version. It opens no file: before the first
// exchange, and while the file cannot be used, there is no news.
func (s *Store) news(ctx context.Context) (version int64, news bool) {
	select {
	case s.turn <- struct{}{}:
	default: // an exchange is under way
		return 0, false
	}
	defer func() { <-s.turn }()
	if s.closed.Load() || s.handle == nil {
		return 0, false
	}
	if !s.handle.isCurrent() {
		return deleted, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.ledger == nil || s.read(ctx) != nil {
		return 0, false
	}
	return s.ledger.Version, s.ledger.Version != s.answeredVersion
}

// Close implements [fleet.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.end()
	s.watchers.Wait()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.leave()
	return nil
}
