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
	// Load returns the present snapshot. When what is there is not valid, the error has [Problems]; what to do then, such as
	// to stay with the last snapshot that was, is the caller's business.
	Load(ctx context.Context) (*Snapshot, error)

	// Watch returns a channel that gets a value at once, and whenever it may be worth to call Load again: because something
	// was changed, by whomever; the store cannot be reached, again and again; or it can be reached again. Values that nobody
	// has taken yet are one. The channel is closed when ctx ends or the store is closed.
	Watch(ctx context.Context) <-chan struct{}

	// Apply makes a change: all of it or, when it or its result is not valid or somebody else was quicker, nothing. It returns
	// the snapshot that it makes; the present one if the change changes nothing.
	Apply(ctx context.Context, change Change) (*Snapshot, error)

	// History returns the latest revisions, the newest first, at most limit.
	History(ctx context.Context, limit int) ([]Revision, error)

	// At returns what the configuration said at an older version, or [ErrNoVersion].
	At(ctx context.Context, version string) (Content, error)

	// Close ends watching and gives everything up.
	Close() error
}

// Options are what every store is opened with.
type Options struct {
	// Profiles checks the profiles that users wrote, as CheckProfiles does; nil for no check.
	Profiles ProfileCheck
	// ReadOnly is for who only loads: opening neither makes a database nor brings its schema up to date.
	ReadOnly bool
	// Known says that there was a configuration before, a copy of which exists: a place without one is [ErrMissing] then, and
	// not an empty configuration, and nothing is made there.
	Known bool
	// Poll is how often a store looks for changes of others; 0 for its default, which finds them within a second.
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
	// ErrMissing: where the configuration was there is none any more. Nothing can be changed until there is one again.
	ErrMissing = errors.New("the configuration is missing")
	// ErrUnreachable: the store does not answer. What the error says may be another thing each time, though it is one outage.
	ErrUnreachable = errors.New("the configuration store cannot be reached")
	// ErrNoVersion: the history has no such version, or no longer.
	ErrNoVersion = errors.New("the history has no such version")
	// ErrSchema: the database's schema is not the one that this program knows.
	ErrSchema = errors.New("the database schema does not match")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the configuration store is closed")
)

// Unreachable marks an error as [ErrUnreachable], and leaves its text as it is.
func Unreachable(err error) error { return unreachable{err} }

type unreachable struct{ error }

func (u unreachable) Unwrap() error        { return u.error }
func (u unreachable) Is(target error) bool { return target == ErrUnreachable }

// ConflictError says that somebody else changed the configuration meanwhile. Nothing was written.
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
