package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps a configuration. Its methods may be called from any goroutine.
type Store interface {
	// Load returns the current snapshot. If the configuration is not valid, the error has [Problems]; the caller decides what to do,
	// such as to keep the last valid snapshot.
	Load(ctx context.Context) (*Snapshot, error)

	// Watch returns a channel that receives a value at once, and whenever Load may have another result: after a change by anybody,
	// repeatedly while the store cannot be reached, and when it can be reached again. Values that nobody has received yet are merged
	// into one. The channel is closed when ctx ends or the store is closed.
	Watch(ctx context.Context) <-chan struct{}

	// Apply makes a change completely or, if it or its result is not valid or somebody else has changed the configuration meanwhile,
	// not at all. It returns the new snapshot; the current one if nothing differs.
	Apply(ctx context.Context, change Change) (*Snapshot, error)

	// History returns the latest revisions, the newest first, at most limit.
	History(ctx context.Context, limit int) ([]Revision, error)

	// At returns the content of an older version, or [ErrNoVersion].
	At(ctx context.Context, version string) (Content, error)

	// Close closes all watchers and releases the store.
	Close() error
}

// Options are what every store is opened with.
type Options struct {
	// Profiles checks the profiles that users wrote, as CheckProfiles does; nil for no check.
	Profiles ProfileCheck
	// ReadOnly is for callers that only load: the store neither creates a database nor migrates its schema.
	ReadOnly bool
	// Known says that the configuration existed before, because a copy of it exists. Then a place without a configuration is
	// [ErrMissing], not an empty configuration, and the store creates nothing there.
	Known bool
	// Poll is the time between two checks for other programs' changes; 0 for the store's default, which finds them within a second.
	Poll time.Duration
}

// Revision is one change that was made.
type Revision struct {
	Version string    `json:"version"` // after the change
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Why     string    `json:"why,omitempty"`
	Edits   Edits     `json:"edits"`
}

// String returns the revision in an operator's words: alice: backend gpu-2: connections 32 -> 48.
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
	// ErrMissing: the configuration existed and is gone. Nothing can be changed until it exists again.
	ErrMissing = errors.New("the configuration is missing")
	// ErrUnreachable: the store does not answer. The text of the error may differ each time during one outage.
	ErrUnreachable = errors.New("the configuration store cannot be reached")
	// ErrNoVersion: the history does not have the version, or not any more.
	ErrNoVersion = errors.New("the history has no such version")
	// ErrSchema: this program does not know the database's schema.
	ErrSchema = errors.New("the database schema does not match")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the configuration store is closed")
)

// Unreachable marks an error as [ErrUnreachable] without changing its text.
func Unreachable(err error) error { return unreachable{err} }

type unreachable struct{ error }

func (u unreachable) Unwrap() error        { return u.error }
func (u unreachable) Is(target error) bool { return target == ErrUnreachable }

// ConflictError says that somebody else has changed the configuration since the writer read it. Nothing was written.
type ConflictError struct {
	Expected string     // the version that the writer had seen
	Current  string     // the version that is there
	Since    []Revision // what was changed meanwhile, the newest first, as far as the history knows
}

// Error names who changed what.
func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has version %s, not %s, which the change was made for", e.Current, e.Expected)
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
