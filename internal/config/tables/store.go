package tables

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Transact runs f in a transaction, and commits it if f says so. A transaction that only reads sees one state of all tables.
type Transact func(ctx context.Context, writing bool, f func(*Tables) (commit bool, err error)) error

// Store is the part of a [config.Store] that is the same for all databases. Each of its methods is one transaction.
type Store struct {
	transact Transact            // static
	check    config.ProfileCheck // static
	written  func()              // static: called after each change
	known    atomic.Bool         // there was a configuration before: the empty one of a new schema has been changed
}

// NewStore returns a store that uses these transactions. It calls written after each change.
func NewStore(transact Transact, options config.Options, written func()) *Store {
	s := &Store{transact: transact, check: options.Profiles, written: written}
	s.known.Store(options.Known)
	return s
}

// isLost returns an error if the version is that of new tables, although there was a configuration before. Then the
// tables were created again, and an empty configuration was not asked for.
func (s *Store) isLost(version string) error {
	switch {
	case version != firstVersion:
		s.known.Store(true)
	case s.known.Load():
		return fmt.Errorf("%w: the database's tables are new and have never been written to", config.ErrMissing)
	}
	return nil
}

// firstVersion is the version of a configuration that has not been changed yet.
const firstVersion = "0"

// Load implements [config.Store].
func (s *Store) Load(ctx context.Context) (snapshot *config.Snapshot, err error) {
	err = s.transact(ctx, false, func(t *Tables) (bool, error) {
		if snapshot, err = t.Load(ctx, s.check); err == nil {
			err = s.isLost(snapshot.Version())
		}
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return snapshot, nil
}

// Apply implements [config.Store]. If the tables were created again, it only accepts a change that replaces everything.
func (s *Store) Apply(ctx context.Context, change config.Change) (snapshot *config.Snapshot, err error) {
	written := false
	err = s.transact(ctx, true, func(t *Tables) (bool, error) {
		if change.Content == nil && s.known.Load() {
			version, err := t.Version(ctx)
			if err == nil {
				err = s.isLost(version)
			}
			if err != nil {
				return false, err
			}
		}
		snapshot, written, err = t.Apply(ctx, change, s.check)
		return written, err
	})
	if err != nil {
		return nil, err
	}
	if written {
		s.known.Store(true)
		s.written()
	}
	return snapshot, nil
}

// History implements [config.Store].
func (s *Store) History(ctx context.Context, limit int) (revisions []config.Revision, err error) {
	err = s.transact(ctx, false, func(t *Tables) (bool, error) {
		revisions, err = t.History(ctx, limit)
		return false, err
	})
	return revisions, err
}

// At implements [config.Store].
func (s *Store) At(ctx context.Context, version string) (content config.Content, err error) {
	err = s.transact(ctx, false, func(t *Tables) (bool, error) {
		content, err = t.At(ctx, version, s.check)
		return false, err
	})
	return content, err
}
