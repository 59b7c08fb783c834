package follow

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a store that does what the test wants.
type store struct {
	config.Store // nil: nothing is written
	bell         config.Bell

	mu       sync.Mutex
	snapshot *config.Snapshot  // guarded by mu
	err      error             // guarded by mu
	hangs    bool              // guarded by mu: it does not answer
	loads    int               // guarded by mu
	history  []config.Revision // guarded by mu; nil: it has none
}

func (s *store) History(_ context.Context, limit int) ([]config.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.history == nil {
		return nil, errDown
	}
	return s.history[:min(limit, len(s.history))], nil
}

func (s *store) Load(ctx context.Context) (*config.Snapshot, error) {
	s.mu.Lock()
	s.loads++
	snapshot, err, hangs := s.snapshot, s.err, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return snapshot, nil
}

func (s *store) Watch(ctx context.Context) <-chan struct{} { return s.bell.Watch(ctx) }

// say has the store say something else, and tell so.
func (s *store) say(snapshot *config.Snapshot, err error) {
	s.mu.Lock()
	s.snapshot, s.err = snapshot, err
	s.mu.Unlock()
	s.bell.Ring()
}

// rig is a follower of a store.
type rig struct {
	*Follower
	t     *testing.T
	store *store
	log   *journal
	file  string

	mu      sync.Mutex
	applied []string // guarded by mu: versions
	refuse  error    // guarded by mu: what Apply says

	write func(path, origin string, s *config.Snapshot) error // nil: to the disk
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{t: t, store: &store{}, log: new(journal), file: filepath.Join(t.TempDir(), "state", "last-good.yaml")}
}

// start begins to follow. It must be ended within the bubble.
func (r *rig) start() error {
	var err error
	r.Follower, err = Start(context.Background(), Options{
		Store: r.store, Source: "the store", CopyFile: r.file, Log: slog.New(r.log), write: r.write,
		Apply: func(s *config.Snapshot) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.refuse != nil {
				return r.refuse
			}
			r.applied = append(r.applied, s.Version())
			return nil
		},
	})
	return err
}

// mustStart begins to follow, until the function that it returns is called.
func (r *rig) mustStart() (end func()) {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return r.Close
}

// following calls f in a bubble, with a follower of a store that has version 1.
func following(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.store.say(snapshot(t, "1", 1), nil)
		defer r.mustStart()()
		f(t, r)
	})
}

// versions returns what was applied.
func (r *rig) versions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.applied)
}

// expect checks what is in force.
func (r *rig) expect(version string, state State, reason string) Status {
	r.t.Helper()
	synctest.Wait()
	s := r.Status()
	if s.Version != version || s.State != state || s.Reason != reason {
		r.t.Errorf("in force: %+v; want version %s, %s, %q", s, version, state, reason)
	}
	return s
}

// soon is expect for a time at which the follower may just have tried again.
func (r *rig) soon(version string, state State, reason string) {
	r.t.Helper()
	time.Sleep(minInterval)
	r.expect(version, state, reason)
}

// snapshot returns a configuration of that version with a service whose queue is of that length.
func snapshot(t *testing.T, version string, queue int) *config.Snapshot {
	t.Helper()
	content := config.NewContent()
	s := config.DefaultService()
	s.Queue = queue
	content.Services["stt"] = s
	made, err := config.NewSnapshot(version, &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// journal counts lines of a log by their message.
type journal struct {
	mu    sync.Mutex
	lines map[string]int               // guarded by mu
	last  map[string]map[string]string // guarded by mu: the attributes of the last line with a message
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lines == nil {
		j.lines, j.last = make(map[string]int), make(map[string]map[string]string)
	}
	j.last[r.Message] = make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		j.last[r.Message][a.Key] = a.Value.String()
		return true
	})
	j.lines[r.Message]++
	return nil
}

func (j *journal) count(message string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[message]
}

// attributes returns those of the last line with a message.
func (j *journal) attributes(message string) map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[message]
}

var errDown = errors.New("connection refused")
