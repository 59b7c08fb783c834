package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Store keeps a configuration. Its methods may be called from any goroutine.
type Store interface {
	// Load returns the present snapshot. If the stored configuration is invalid, the error has [Problems]; the caller decides
	// what to do then, such as to keep the last valid snapshot in force.
	Load(ctx context.Context) (*Snapshot, error)

	// Watch returns a channel that receives a value at once, and whenever Load should be called again: after a change by anybody,
	// repeatedly while the store cannot be reached, and when it can be reached again. The channel holds at most one value. It is
	// closed when ctx ends or the store is closed.
	Watch(ctx context.Context) <-chan struct{}

	// Apply makes a change. If the change or its result is invalid, or another change came first, it changes
	// nothing. It returns the new snapshot, or the present one if the change has no effect.
	Apply(ctx context.Context, change Change) (*Snapshot, error)

	// History returns the latest revisions, the newest first, at most limit.
	History(ctx context.Context, limit int) ([]Revision, error)

	// At returns the configuration of an older version, or [ErrNoVersion].
	At(ctx context.Context, version string) (Content, error)

	// Close ends all watching and releases the store's resources.
	Close() error
}

// Options are the options of every store.
type Options struct {
	// Profiles checks the profiles that users wrote, as CheckProfiles does; nil for no check.
	Profiles ProfileCheck
	// ReadOnly opens a store for loading only: it neither creates a database nor migrates its schema.
	ReadOnly bool
	// Known says that a configuration existed before, since a copy of it exists. A store that is empty is [ErrMissing] then instead
	// of an empty configuration, and nothing is created.
	Known bool
}

// Revision is one change that was made.
type Revision struct {
	Version string    `json:"version"` // after the change
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Why     string    `json:"why,omitempty"`
	Edits   Edits     `json:"edits"`
}

// String returns the revision for people: alice: backend gpu-2: connections 32 -> 48.
func (r Revision) String() string {
	lines := make([]string, len(r.Edits))
	for i, edit := range r.Edits {
		lines[i] = edit.String()
	}
	return r.Who + ": " + strings.Join(lines, "; ")
}

// Errors of stores, for errors.Is.
var (
	// ErrReadOnly: the store cannot be written to, such as a file without permission.
	ErrReadOnly = errors.New("the configuration is read-only")
	// ErrMissing: the configuration no longer exists. Nothing can be changed until it exists again.
	ErrMissing = errors.New("the configuration is missing")
	// ErrUnreachable: the store does not answer. The text of the error may differ each time within one outage.
	ErrUnreachable = errors.New("the configuration store cannot be reached")
	// ErrNoVersion: the history does not have the version, or no longer has it.
	ErrNoVersion = errors.New("the history has no such version")
	// ErrSchema: this program does not know the version of the database's schema.
	ErrSchema = errors.New("the database schema does not match")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the configuration store is closed")
)

// Unreachable marks an error as [ErrUnreachable] without changing its text.
func Unreachable(err error) error { return unreachable{err} }

type unreachable struct{ error }

func (u unreachable) Unwrap() error        { return u.error }
func (u unreachable) Is(target error) bool { return target == ErrUnreachable }

// ConflictError says that another change came first. Nothing was written.
type ConflictError struct {
	Expected string     // the version that the writer had seen
	Current  string     // the present version
	Since    []Revision // the changes since, the newest first, as far as the history has them
}

// NewConflict returns the conflict of a change that was made for an earlier version than the current one. revisions are the latest, the newest first.
func NewConflict(expected, current string, revisions []Revision) *ConflictError {
	if i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Version == expected }); i >= 0 {
		revisions = revisions[:i]
	}
	return &ConflictError{expected, current, revisions}
}

// Error names who changed what.
func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has version %s, but the change was made for version %s", e.Current, e.Expected)
	const most = 5
	for i, revision := range e.Since {
		if i == most {
			fmt.Fprintf(&b, "; and %d earlier changes", len(e.Since)-most)
			break
		}
		fmt.Fprintf(&b, "; %s: %s", revision.At.UTC().Format(time.RFC3339), revision)
	}
	return b.String()
}
