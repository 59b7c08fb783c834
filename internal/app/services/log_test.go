package services

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// nosy is a log that asks the services for something with each line, before it has it: that must not wait for who has written it.
type nosy struct {
	ask func()

	mu    sync.Mutex
	lines []string // guarded by mu
}

func (n *nosy) Enabled(context.Context, slog.Level) bool { return true }

func (n *nosy) Handle(_ context.Context, r slog.Record) error {
	n.ask()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, r.Message)
	return nil
}

func (n *nosy) WithAttrs([]slog.Attr) slog.Handler { return n }

func (n *nosy) WithGroup(string) slog.Handler { return n }

// Each change of a backend's state is logged once, and not while the services are locked.
func TestLog(t *testing.T) {
	t.Parallel()
	loops, err := loop.NewGroup(loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer loops.Close()
	log := new(nosy)
	s := New(Options{Loops: loops, SetRoutes: func([]*route.Service) {}, Log: slog.New(log)})
	log.ask = func() {
		_ = s.Ready(nil)
		s.advance() // as it may at any moment
	}
	defer s.Close(t.Context())
	content := config.NewContent()
	putService(&content, "stt", nil)
	apply := func(change func()) {
		t.Helper()
		change()
		snapshot, err := config.NewSnapshot("1", &content, nil)
		if err == nil {
			err = s.Apply(snapshot)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(mode pool.Mode) func() {
		return func() {
			putBackend(&content, "a", "stt", "ws://127.0.0.1:1", 1, func(b *config.Backend) { b.State, b.Warm = mode.String(), 0 })
		}
	}
	apply(put(pool.Enabled))
	apply(put(pool.Draining))
	apply(func() {})
	apply(put(pool.Enabled))
	apply(put(pool.Disabled))
	apply(func() { delete(content.Backends, "a") })
	want := []string{"backend draining", "backend enabled", "backend disabled", "removing backend, its sessions continue", "backend removed"}
	wstest.Eventually(t, "the backend is gone", func() bool {
		log.mu.Lock()
		defer log.mu.Unlock()
		return len(log.lines) == len(want)
	})
	if !slices.Equal(log.lines, want) {
		t.Errorf("logged %q; want %q", log.lines, want)
	}
}

// However often answers change, servers that belong to other backends are logged at most once a minute for each name.
func TestLogOfSharedServers(t *testing.T) {
	t.Parallel()
	log := &nosy{ask: func() {}}
	s := &Services{o: Options{Log: slog.New(log)}, sharedLines: make(map[string]sharedLine)}
	begun := time.Now()
	for _, c := range []struct {
		after   time.Duration
		servers []string
		lines   int
	}{
		{0, []string{"a"}, 1},
		{time.Second, []string{"b"}, 1},
		{2 * time.Second, nil, 1},
		{3 * time.Second, []string{"a"}, 1},
		{time.Minute, []string{"a"}, 1}, // the log has said so
		{time.Minute + time.Second, []string{"b"}, 2},
		{time.Hour, nil, 2},
	} {
		s.mu.Lock()
		s.desired = &plan{shared: map[string][]string{"gpu": c.servers}}
		if c.servers == nil {
			s.desired.shared = nil
		}
		s.logShared(begun.Add(c.after))
		s.unlock()
		if len(log.lines) != c.lines {
			t.Errorf("after %v, the log has %q; want %d lines", c.after, log.lines, c.lines)
		}
	}
	if len(s.sharedLines) > 0 {
		t.Errorf("names stay in memory: %v", s.sharedLines)
	}
}
