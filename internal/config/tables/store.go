package tables

import (
	"context"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Transact runs f in a transaction, which is committed if f wants so. One that is not for writing sees one state of all tables.
type Transact func(ctx context.Context, writing bool, f func(t *Tables, w Writer) (commit bool, err error)) error

// Store is the part of a [config.Store] that all databases have in common: each of its methods is one transaction.
type Store struct {
	transact Transact
	check    config.ProfileCheck
	written  func()
}

// NewStore returns the store whose transactions are those. written is called after a change was made; check may be nil.
func NewStore(transact Transact, check config.ProfileCheck, written func()) *Store {
	return &Store{transact, check, written}
}

// Load implements [config.Store].
func (s *Store) Load(ctx context.Context) (snapshot *config.Snapshot, err error) {
	err = s.transact(ctx, false, func(t *Tables, _ Writer) (bool, error) {
		snapshot, err = t.Load(ctx, s.check)
		return false, err
	})
	return snapshot, err
}

// Apply implements [config.Store].
func (s *Store) Apply(ctx context.Context, change config.Change) (snapshot *config.Snapshot, err error) {
	written := false
	err = s.transact(ctx, true, func(t *Tables, w Writer) (bool, error) {
		snapshot, written, err = t.Apply(ctx, w, change, s.check)
		return written, err
	})
	if err != nil {
		return nil, err
	}
	if written {
		s.written()
	}
	return snapshot, nil
}

// History implements [config.Store].
func (s *Store) History(ctx context.Context, limit int) (revisions []config.Revision, err error) {
	err = s.transact(ctx, false, func(t *Tables, _ Writer) (bool, error) {
		revisions, err = t.History(ctx, limit)
		return false, err
	})
	return revisions, err
}

// At implements [config.Store].
func (s *Store) At(ctx context.Context, version string) (content config.Content, err error) {
	err = s.transact(ctx, false, func(t *Tables, _ Writer) (bool, error) {
		content, err = t.At(ctx, version, s.check)
		return false, err
	})
	return content, err
}
