// Package follow keeps up with a configuration's store: whatever changes there is applied, and while the store cannot be
// reached, or what it says is not valid, the last good snapshot stays in force and says so. A copy of that is kept on disk, for
// a start without the store.
package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Options say what to follow. All fields are required unless it says otherwise.
type Options struct {
	Store config.Store
	// Source is what people call the store; it must not show a password.
	Source string
	// Origin names the store in the copy: it must be the same in whatever directory the process runs; default Source.
	Origin string
	// CopyFile is the file for the copy of the last good snapshot; empty for none.
	CopyFile string
	// Apply puts a snapshot in force. It is called by one goroutine at a time, and must not wait for sessions. An error says that
	// the snapshot cannot be put in force, and that nothing has changed.
	Apply func(*config.Snapshot) error
	// Timeout is the maximum time for reading the store once; default 10 s.
	Timeout time.Duration
	// Log receives a line for each change, when the store fails, and when it works again.
	Log *slog.Logger

	write func(path, origin string, s *config.Snapshot) error // writes the copy; tests have another one
}

// State is how good the snapshot in force is.
type State string

// The states.
const (
	// Current: it is the snapshot that the store returned last.
	Current State = "current"
	// Stale: the store fails; it is the last snapshot that the store returned.
	Stale State = "stale"
	// Copied: the store has failed since the start; it is the copy on disk.
	Copied State = "copied"
)

// Status is which snapshot is in force and how good it is.
type Status struct {
	Source  string
	Version string // of the snapshot in force
	State   State
	Since   time.Time // of the state
	Reason  string    // why it is not current
	Applied time.Time // when the snapshot came into force
	Changes uint64    // snapshots that came into force since the start
	Failed  uint64    // attempts to read or apply that failed
	Checked time.Time // when the store was last read successfully
	// Unsaved is why the copy on disk could not be written, so that it is older than what is in force, since UnsavedSince; empty if it is not.
	Unsaved      string
	UnsavedSince time.Time
}

// Follower follows a store until Close.
type Follower struct {
	o      Options
	cancel context.CancelFunc
	done   chan struct{}

	// Owned by Start, and then by the following goroutine.
	force    *config.Snapshot // the snapshot in force
	writing  *copying         // the write of the copy that has not ended; nil for none
	reported map[string]bool  // causes of failures that were logged since the store last worked

	mu     sync.Mutex
	status Status // guarded by mu
}

// Start reads the store, or its copy on disk if the store fails, applies the snapshot, and follows the store from then on. It fails
// if it can read neither. ctx applies to the start only.
func Start(ctx context.Context, o Options) (*Follower, error) {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	o.Origin = cmp.Or(o.Origin, o.Source)
	if o.write == nil {
		o.write = writeCopy
	}
	f := &Follower{o: o, done: make(chan struct{})}
	f.status.Source = o.Source
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	following, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.run(following)
	return f, nil
}

// begin brings the first snapshot into force.
func (f *Follower) begin(ctx context.Context) error {
	err := f.refresh(ctx)
	if err == nil {
		return nil
	}
	last, copyErr := readCopy(f.o.CopyFile, f.o.Origin, f.o.Source)
	if copyErr == nil {
		copyErr = f.o.Apply(last)
	}
	reason := f.reason(err)
	if copyErr != nil {
		if f.o.CopyFile == "" {
			return fmt.Errorf("cannot read the configuration from %s: %w", f.o.Source, err)
		}
		return fmt.Errorf("cannot read the configuration from %s: %w; no copy to start with: %w", f.o.Source, err, copyErr)
	}
	f.force = last
	f.update(func(s *Status) {
		s.Version, s.State, s.Since, s.Applied, s.Reason = last.Version(), Copied, time.Now(), time.Now(), reason
		s.Changes++
	})
	f.o.Log.Warn("cannot read the configuration, serving with its last good copy", "source", f.o.Source,
		"version", last.Version(), "copy", f.o.CopyFile, "reason", reason)
	f.isNewCause(err, reason)
	return nil
}

const (
	// minInterval is the minimum mean time between two reads, so that many changes in a row do not take CPU away from sessions. Up to burst reads
	// are made without a pause: who adds a service and its backends expects that clients can use them.
	minInterval = 200 * time.Millisecond
	burst       = 10
	// retryInterval is about the longest time between two reads while the snapshot in force is not current, if the store reports no change:
	// what was wrong may have been mended without one, such as a schema by migrate, or a limit of this machine. The first time is
	// firstRetry, since a read may have failed only because the store was busy or has just been restarted, and the next ones are doubled.
	retryInterval = 5 * time.Second
	firstRetry    = 500 * time.Millisecond
	// copyInterval is the time between two tries to write the copy, if the disk does not take it.
	copyInterval = time.Minute
	// copyTimeout is for how long changes wait for a disk that does not answer.
	copyTimeout = 2 * time.Second
)

var errNoAnswer = errors.New("the disk does not answer")

func (f *Follower) run(ctx context.Context) {
	defer close(f.done)
	retry := time.NewTimer(retryInterval)
	defer retry.Stop()
	copies := time.NewTicker(copyInterval)
	defer copies.Stop()
	var due time.Time // when the next read may be made
	changes := f.o.Store.Watch(ctx)
	wait := firstRetry
	for {
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-retry.C:
			if f.Status().State == Current {
				continue // until a read fails, which sets the timer again
			}
		case <-copies.C:
			if f.Status().Unsaved != "" {
				f.keepCopy()
			}
			continue
		}
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return
		}
		if earliest := time.Now().Add(-(burst - 1) * minInterval); due.Before(earliest) {
			due = earliest
		}
		due = due.Add(minInterval)
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			f.failed(err)
			retry.Reset(wait/2 + rand.N(wait)) // so that not all proxies retry at once
			wait = min(2*wait, retryInterval)
		} else {
			wait = firstRetry
		}
	}
}

// refresh reads the store and applies a new snapshot.
func (f *Follower) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.o.Timeout, config.Unreachable(fmt.Errorf("no answer within %v", f.o.Timeout)))
	defer cancel()
	next, err := f.o.Store.Load(ctx)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) && cause != nil {
			err = cause
		}
		return err
	}
	var edits config.Edits
	if f.force != nil {
		if edits = f.force.Diff(next); len(edits) == 0 { // the version may still differ
			f.recovered(next.Version())
			f.force = next
			return nil
		}
	}
	if err := f.o.Apply(next); err != nil {
		return fmt.Errorf("version %s cannot be put in force: %w", next.Version(), err)
	}
	before := f.force
	f.force = next
	f.update(func(s *Status) { s.Applied = time.Now(); s.Changes++ })
	f.recovered(next.Version())
	f.keepCopy()
	f.logChange(ctx, before, next, edits) // last, since it asks the store who made the change
	return nil
}

// copying is one write of the copy.
type copying struct {
	snapshot *config.Snapshot
	ended    chan error // of size one
}

// save writes the copy of the snapshot in force. It returns errNoAnswer if that has not ended in time, or an earlier write has not ended yet. Nothing can
// end a write that hangs: its goroutine may outlive the follower.
func (f *Follower) save() error {
	if f.writing != nil {
		select {
		case err := <-f.writing.ended:
			if f.writing.snapshot == f.force && err == nil {
				f.writing = nil
				return nil
			}
		default:
			return errNoAnswer
		}
	}
	w := &copying{f.force, make(chan error, 1)}
	f.writing = w
	go func() { w.ended <- f.o.write(f.o.CopyFile, f.o.Origin, w.snapshot) }()
	select {
	case err := <-w.ended:
		f.writing = nil
		return err
	case <-time.After(copyTimeout):
		return errNoAnswer
	}
}

// keepCopy has the copy of the snapshot in force written. run calls it again if it fails.
func (f *Follower) keepCopy() {
	if f.o.CopyFile == "" {
		return
	}
	err := f.save()
	was := f.Status().Unsaved
	switch {
	case err == nil && was != "":
		f.update(func(s *Status) { s.Unsaved, s.UnsavedSince = "", time.Time{} })
		f.o.Log.Info("the copy of the last good configuration can be written again", "copy", f.o.CopyFile, "version", f.force.Version())
	case err != nil && was == "":
		f.update(func(s *Status) { s.Unsaved, s.UnsavedSince = err.Error(), time.Now() })
		f.o.Log.Warn("cannot write the copy of the last good configuration", "copy", f.o.CopyFile, "error", err)
	}
}

// recovered records that the snapshot in force is the one in the store, with that version.
func (f *Follower) recovered(version string) {
	var before Status
	f.update(func(s *Status) {
		before = *s
		s.Version, s.Checked = version, time.Now()
		if s.State != Current {
			s.State, s.Since, s.Reason = Current, time.Now(), ""
		}
	})
	f.reported = nil
	if before.State != "" && before.State != Current {
		f.o.Log.Info("the configuration can be read again", "source", f.o.Source, "version", version, "failed_for", time.Since(before.Since).Round(time.Millisecond))
	}
}

// failed records that the store could not be read or its snapshot not be applied. Each cause is logged once until the store works.
func (f *Follower) failed(err error) {
	reason := f.reason(err)
	var s Status
	f.update(func(now *Status) {
		if now.State == Current {
			now.State, now.Since = Stale, time.Now()
		}
		now.Reason = reason
		now.Failed++
		s = *now
	})
	if f.isNewCause(err, reason) {
		f.o.Log.Error("cannot follow the configuration, the last good version stays in force", "source", f.o.Source,
			"version", s.Version, "since", s.Since, "reason", reason)
	}
}

func (f *Follower) update(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// Status returns which snapshot is in force and how good it is.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Close stops following the store, and returns when it has stopped. The store stays open.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
}
