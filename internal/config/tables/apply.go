package tables

import (
	"context"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Writer does what a database needs around a change, in the same transaction.
type Writer interface {
	// Lock keeps out other writers until the transaction ends.
	Lock(ctx context.Context) error
	// Sign tells the triggers who writes and why.
	Sign(ctx context.Context, who, why string) error
	// Seal ends what Sign began.
	Seal(ctx context.Context) error
}

// Apply makes a change. The caller commits the transaction if there is no error; written reports whether there is something
// to commit.
func (t *Tables) Apply(ctx context.Context, w Writer, change config.Change, check config.ProfileCheck) (s *config.Snapshot, written bool, err error) {
	if err := change.Check(); err != nil {
		return nil, false, err
	}
	if err := t.checkSchema(ctx); err != nil {
		return nil, false, err
	}
	if err := w.Lock(ctx); err != nil {
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
	to, err := change.Result(&before)
	if err != nil {
		return nil, false, err
	}
	if err := to.Validate(check); err != nil {
		return nil, false, err
	}
	if len(unread) == 0 && to.Equal(&before) {
		s, err = config.NewSnapshot(version, &to, nil)
		return s, false, err
	}
	if err := w.Sign(ctx, change.Who, change.Why); err != nil {
		return nil, false, err
	}
	if err := t.Replace(ctx, &before, &to, unread); err != nil {
		return nil, false, err
	}
	if err := w.Seal(ctx); err != nil {
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
	conflict := &config.ConflictError{Expected: expected, Current: current}
	if _, err := strconv.ParseInt(expected, 10, 64); err != nil {
		return conflict // it is not a version of this store
	}
	revisions, err := t.History(ctx, 100)
	if err != nil {
		return err
	}
	for _, r := range revisions {
		if r.Version == expected {
			break
		}
		conflict.Since = append(conflict.Since, r)
	}
	return conflict
}
