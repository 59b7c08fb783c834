package configtest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// waitTimeout is how long a test waits for something that must happen; it is far longer than that takes.
const waitTimeout = 30 * time.Second

// await waits for a value of a watcher.
func await(t testing.TB, watcher <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-watcher:
		if !ok {
			t.Fatal("the channel was closed")
		}
	case <-time.After(waitTimeout):
		t.Fatal("nothing was said to a watcher")
	}
}

// awaitConnections loads the configuration whenever the watcher reports a change, until it sees a backend's new cap. It returns how
// long that took.
func awaitConnections(t testing.TB, s config.Store, watcher <-chan struct{}, connections int) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		await(t, watcher)
		if b, _ := load(t, s).Backend("gpu-1"); b.Connections == connections {
			return time.Since(begun)
		}
	}
}

func connections(n int) config.Change {
	return config.Change{Who: "tester", Mutations: set("gpu-1", config.Values{"connections": strconv.Itoa(n)})}
}

func testWatchOneself(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Small())
	one, two := s.Watch(t.Context()), s.Watch(t.Context())
	await(t, one) // the first comes at once
	await(t, two)
	apply(t, s, connections(48))
	awaitConnections(t, s, one, 48)
	awaitConnections(t, s, two, 48)
}

func testWatchOthers(t *testing.T, p Place) {
	s, other := p.open(t), p.open(t)
	replace(t, s, Small())
	watcher := s.Watch(t.Context())
	awaitConnections(t, s, watcher, 32)
	quickest := waitTimeout
	for n := 40; n < 45; n++ {
		apply(t, other, connections(n))
		quickest = min(quickest, awaitConnections(t, s, watcher, n))
	}
	if quickest > time.Second { // the others may have been held up by a busy machine
		t.Errorf("changes of another process were seen after %v and more; it must be a second at most", quickest)
	}
}

func testCoalesced(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Small())
	watcher := s.Watch(t.Context())
	for n := range 10 { // the channel is not read meanwhile
		apply(t, s, connections(40+n))
	}
	if n := len(watcher); n != 1 {
		t.Errorf("%d values wait for the watcher; they should be one", n)
	}
	awaitConnections(t, s, watcher, 49)
}

func testCancelled(t *testing.T, p Place) {
	s := p.open(t)
	want := replace(t, s, Small())
	ctx, cancel := context.WithCancel(t.Context())
	watcher := s.Watch(ctx)
	await(t, watcher)
	cancel()
	for range watcher { // until it is closed
	}
	if _, ok := <-s.Watch(ctx); ok {
		t.Error("watching with a context that has ended says something")
	}
	_, loading := s.Load(ctx)
	_, writing := s.Apply(ctx, connections(48))
	_, reading := s.History(ctx, 1)
	_, older := s.At(ctx, want.Version())
	for i, err := range []error{loading, writing, reading, older} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d with a context that has ended: %v", i, err)
		}
	}
	same(t, "after calls that were cancelled", load(t, s).Content(), want.Content())
	await(t, s.Watch(t.Context())) // still works
}

func testClosed(t *testing.T, p Place) {
	before := goleak.IgnoreCurrent()
	s := p.Open(t, config.Options{})
	replace(t, s, Small())
	one, two := s.Watch(t.Context()), s.Watch(t.Context())
	await(t, one)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, watcher := range []<-chan struct{}{one, two} {
		for range watcher { // until it is closed
		}
	}
	if _, ok := <-s.Watch(t.Context()); ok {
		t.Error("watching a closed store says something")
	}
	_, loading := s.Load(t.Context())
	_, writing := s.Apply(t.Context(), connections(48))
	_, reading := s.History(t.Context(), 1)
	_, older := s.At(t.Context(), "1")
	for i, err := range []error{loading, writing, reading, older} {
		if !errors.Is(err, config.ErrClosed) {
			t.Errorf("call %d of a closed store: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing it again: %v", err)
	}
	goleak.VerifyNone(t, before)
}
