package tables

import (
	"context"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Apply makes a change. The caller commits the transaction if there is no error; written reports whether there is something
// to commit.
func (t *Tables) Apply(ctx context.Context, change config.Change, check config.ProfileCheck) (s *config.Snapshot, written bool, err error) {
	if err := change.Check(); err != nil {
		return nil, false, err
	}
	if err := t.checkSchema(ctx); err != nil {
		return nil, false, err
	}
	if err := t.Tx.Lock(ctx); err != nil {
		return nil, false, err
	}
	version, err := t.Version(ctx)
	if err != nil {
		return nil, false, err
	}
	if change.Expect != "" && change.Expect != version {
		return nil, false, t.conflict(ctx, change.Expect, version)
	}
	rows, err := t.Rows(ctx)
	if err != nil {
		return nil, false, err
	}
	before, unread := rows.Content()
	to, err := change.Apply(&before, check)
	if err != nil {
		return nil, false, err
	}
	// A field that cannot be read has its default in before, which must not come into force unless the change is about it.
	if left := slices.DeleteFunc(slices.Clone(unread), func(p config.Problem) bool { return change.Names(p) }); len(left) > 0 {
		return nil, false, left
	}
	if len(unread) == 0 && to.Equal(&before) {
		s, err = config.NewSnapshot(version, &to, nil)
		return s, false, err
	}
	if err := t.Tx.Sign(ctx, change.Who, change.Why); err != nil {
		return nil, false, err
	}
	if err := t.Replace(ctx, &before, &to, unread); err != nil {
		return nil, false, err
	}
	if err := t.Tx.Seal(ctx); err != nil {
		return nil, false, err
	}
	if version, err = t.Version(ctx); err != nil {
		return nil, false, err
	}
	s, err = config.NewSnapshot(version, &to, nil) // it is already validated
	return s, err == nil, err
}

// conflict returns a conflict error that says who changed what since the expected version.
func (t *Tables) conflict(ctx context.Context, expected, current string) error {
	if _, err := strconv.ParseInt(expected, 10, 64); err != nil {
		return config.NewConflict(expected, current, nil) // it is not a version of this store
	}
	revisions, err := t.History(ctx, 100)
	if err != nil {
		return err
	}
	return config.NewConflict(expected, current, revisions)
}
