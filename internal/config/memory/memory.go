// Package memory keeps a configuration in the memory of this process, for a proxy whose configuration is to end with it: what
// flags say, or a trial.
package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// kept is how many revisions the history has at most.
const kept = 100

// Store is a [config.Store] in memory. Versions are numbers, beginning with 0 for what it began with.
type Store struct {
	check config.ProfileCheck
	bell  config.Bell
	first *config.Snapshot // static: what it began with

	mu       sync.Mutex
	snapshot *config.Snapshot // guarded by mu
	version  uint64           // guarded by mu
	past     []revision       // guarded by mu: the latest, in order
	closed   bool             // guarded by mu
}

var _ config.Store = (*Store)(nil)

// revision is a change and what it has made.
type revision struct {
	config.Revision
	snapshot *config.Snapshot
}

// New returns a store with that content, which must be valid; the zero content is empty.
func New(content config.Content, options config.Options) (*Store, error) {
	s := &Store{check: options.Profiles}
	var err error
	if s.first, err = config.NewSnapshot("0", &content, s.check); err != nil {
		return nil, err
	}
	s.snapshot = s.first
	return s, nil
}

// begin takes the mutex if the store can be used.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return config.ErrClosed
	}
	return nil
}

// Load implements [config.Store].
func (s *Store) Load(ctx context.Context) (*config.Snapshot, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.snapshot, nil
}

// Watch implements [config.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.bell.Watch(ctx) }

// Apply implements [config.Store].
func (s *Store) Apply(ctx context.Context, change config.Change) (*config.Snapshot, error) {
	if err := change.Check(); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	current := s.snapshot
	if change.Expect != "" && change.Expect != current.Version() {
		return nil, config.NewConflict(change.Expect, current.Version(), s.latest(kept))
	}
	before := current.Content()
	after, err := change.Result(&before)
	if err != nil {
		return nil, err
	}
	next, err := config.NewSnapshot(strconv.FormatUint(s.version+1, 10), &after, s.check)
	if err != nil {
		return nil, err
	}
	edits := current.Diff(next)
	if len(edits) == 0 {
		return current, nil
	}
	s.version++
	s.past = append(s.past, revision{
		config.Revision{Version: next.Version(), At: time.Now(), Who: change.Who, Why: change.Why, Edits: edits}, next,
	})
	if len(s.past) > kept {
		s.past = slices.Delete(s.past, 0, len(s.past)-kept)
	}
	s.snapshot = next
	s.bell.Ring()
	return next, nil
}

// History implements [config.Store].
func (s *Store) History(ctx context.Context, limit int) ([]config.Revision, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.latest(limit), nil
}

// latest returns the latest revisions, the newest first. It is called with the mutex held.
func (s *Store) latest(limit int) (revisions []config.Revision) {
	for _, r := range slices.Backward(s.past) {
		if len(revisions) == limit {
			break
		}
		revisions = append(revisions, r.Revision)
	}
	return revisions
}

// At implements [config.Store].
func (s *Store) At(ctx context.Context, version string) (config.Content, error) {
	if err := s.begin(ctx); err != nil {
		return config.Content{}, err
	}
	defer s.mu.Unlock()
	if version == s.first.Version() {
		return s.first.Content(), nil
	}
	for _, r := range s.past {
		if r.Version == version {
			return r.snapshot.Content(), nil
		}
	}
	return config.Content{}, fmt.Errorf("%w: %q", config.ErrNoVersion, version)
}

// Close implements [config.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.bell.Close()
	return nil
}
