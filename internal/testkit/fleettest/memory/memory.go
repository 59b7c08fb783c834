// Package memory keeps a ledger of a fleet in memory, for tests and simulations. It plays a database that is restarted, that fails over to
// a standby without the last commits, and that cannot be reached.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// keptCommits is how many of the last commits a failover can lose.
const keptCommits = 64

// Database keeps one ledger for any number of stores. Its methods may be called from any goroutine.
type Database struct {
	mu       sync.Mutex
	ledger   *fleet.Ledger   // guarded by mu; a commit replaces it
	commits  []*fleet.Ledger // guarded by mu: what the last ledgers were, the latest last
	identity int             // guarded by mu: counts the processes of the database
	epochs   int             // guarded by mu: counts the epochs that were offered
	failure  error           // guarded by mu: what all calls return; nil while the database works
	counts   Counts          // guarded by mu
	stores   map[*Store]struct{}
}

// Counts are how many exchanges a database has carried out.
type Counts struct {
	Exchanges int
	Slow      int // those that changed more than their proxy's heartbeat
}

// New returns an empty database.
func New() *Database {
	return &Database{ledger: storage.NewLedger(), identity: 1, stores: make(map[*Store]struct{})}
}

// Store returns a store of the database: each proxy has its own.
func (d *Database) Store() *Store {
	s := &Store{database: d, watchers: make(map[chan struct{}]struct{}), done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stores[s] = struct{}{}
	return s
}

// Restart makes the database another process, which has all commits.
func (d *Database) Restart() { d.FailOver(0) }

// FailOver makes the database another process, which lacks the last commits: as many as it is told, or all that are kept.
func (d *Database) FailOver(lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity++
	if lost = min(lost, len(d.commits)); lost > 0 {
		d.ledger = d.commits[len(d.commits)-lost]
		d.commits = d.commits[:len(d.commits)-lost]
	}
}

// Fail makes all calls fail with an error, until it is called with nil.
func (d *Database) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
}

// Counts returns how many exchanges there were.
func (d *Database) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Store is a [fleet.Store].
type Store struct {
	database *Database
	watchers map[chan struct{}]struct{} // guarded by database.mu
	self     fleet.ID                   // guarded by database.mu: the proxy whose store it is, after its first exchange
	closed   bool                       // guarded by database.mu
	done     chan struct{}              // closed by Close
}

var _ fleet.Store = (*Store)(nil)

// errClosed says that the store was closed.
var errClosed = errors.New("the store of grants is closed")

// begin locks the database for a call.
func (s *Store) begin(ctx context.Context) (unlock func(), err error) {
	s.database.mu.Lock()
	switch {
	case s.closed:
		err = errClosed
	case ctx.Err() != nil:
		err = ctx.Err()
	case s.database.failure != nil:
		err = s.database.failure
	}
	if err != nil {
		s.database.mu.Unlock()
		return nil, err
	}
	return s.database.mu.Unlock, nil
}

// Exchange implements [fleet.Store].
func (s *Store) Exchange(ctx context.Context, r *fleet.Report) (*fleet.Answer, error) {
	if err := storage.CheckReport(r); err != nil {
		return nil, err
	}
	unlock, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d := s.database
	s.self = r.ID
	identity, fresh := d.keeper()
	answer, changes := storage.Exchange(d.ledger, r, identity, fresh, time.Now())
	d.counts.Exchanges++
	if changes.Anything() {
		d.counts.Slow++
	}
	d.commit(changes, r.ID)
	return answer, nil
}

// keeper returns the identity of the database's process, and an epoch that has never been. The caller holds the lock.
func (d *Database) keeper() (identity string, fresh fleet.Epoch) {
	d.epochs++
	return fmt.Sprintf("process %d", d.identity), fleet.Epoch(fmt.Sprintf("epoch %d", d.epochs))
}

// commit puts the changed ledger in force and wakes those whom the changes concern. The caller holds the lock.
func (d *Database) commit(changes *storage.Changes, by fleet.ID) {
	if len(d.commits) == keptCommits {
		d.commits = slices.Delete(d.commits, 0, 1)
	}
	d.commits = append(d.commits, d.ledger)
	d.ledger = changes.After
	concerned := changes.Woken(by)
	for s := range d.stores {
		if !slices.Contains(concerned, s.self) {
			continue
		}
		for watcher := range s.watchers {
			tasks.Wake(watcher)
		}
	}
}

// Ledger implements [fleet.Store].
func (s *Store) Ledger(ctx context.Context) (*fleet.Ledger, error) {
	unlock, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.database.ledger, nil
}

// Forget implements [fleet.Store].
func (s *Store) Forget(ctx context.Context, id fleet.ID) error {
	unlock, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	d := s.database
	identity, fresh := d.keeper()
	changes := storage.Forget(d.ledger, id, identity, fresh)
	if changes == nil {
		return fmt.Errorf("%w: %s", fleet.ErrUnknown, strings.TrimSpace(string(id)))
	}
	d.commit(changes, "")
	return nil
}

// Changed implements [fleet.Store].
func (s *Store) Changed(ctx context.Context) <-chan struct{} {
	watcher := make(chan struct{}, 1)
	s.database.mu.Lock()
	s.watchers[watcher] = struct{}{}
	s.database.mu.Unlock()
	go func() {
		select {
		case <-ctx.Done():
		case <-s.done:
			<-ctx.Done() // the contract: it is closed when ctx ends
		}
		s.database.mu.Lock()
		delete(s.watchers, watcher)
		s.database.mu.Unlock()
		close(watcher)
	}()
	return watcher
}

// Notifies implements [fleet.Store].
func (s *Store) Notifies() bool { return true }

// Close implements [fleet.Store].
func (s *Store) Close() error {
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
		delete(s.database.stores, s)
	}
	return nil
}
