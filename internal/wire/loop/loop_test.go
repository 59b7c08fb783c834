package loop

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestPostKeepsTheOrder(t *testing.T) {
	l := group(t, 1).Pick()
	var got, want []int
	for i := range 1000 {
		want = append(want, i)
		l.Post(func() { got = append(got, i) })
	}
	call(t, l, func() {})
	if !slices.Equal(got, want) {
		t.Error("out of order")
	}
}

func TestLaterRunsAfterTheEvent(t *testing.T) {
	l := group(t, 1).Pick()
	var order []string
	l.Post(func() {
		l.Later(func() {
			order = append(order, "later")
			l.Later(func() { order = append(order, "later still") })
		})
		l.Later(func() { order = append(order, "second") })
		order = append(order, "event")
	})
	call(t, l, func() { order = append(order, "next event") })
	if want := []string{"event", "later", "second", "later still", "next event"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestPostAndCallAfterStop(t *testing.T) {
	g := group(t, 1)
	l := g.Pick()
	near, _ := wstest.Pair(t)
	c := add(t, l, near, &script{}, nil)
	g.Loops()[0].stop()
	never := func() { t.Error("called on a stopped loop") }
	if l.Post(never) || l.Call(never) || c.Post(never) {
		t.Error("accepted by a stopped loop")
	}
	if !c.Closed() {
		t.Error("a connection was left open")
	}
}

// What was accepted before the stop, in the middle of the loop's last round, is called.
func TestStopCallsWhatWasAccepted(t *testing.T) {
	g := group(t, 1)
	l := g.Pick()
	release := hold(t, l)
	entered, leave, ran := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l.Post(func() { close(entered); <-leave })
	stopped := make(chan struct{})
	go func() { l.stop(); close(stopped) }()
	for posted := 0; posted < 2; { // until the stop is in the same batch as the function above
		runtime.Gosched()
		l.mu.Lock()
		posted = len(l.posted)
		l.mu.Unlock()
	}
	release()
	wstest.Receive(t, entered, "the last round")
	if !l.Post(func() { close(ran) }) {
		t.Error("refused before the stop")
	}
	close(leave)
	wstest.Receive(t, ran, "what was accepted")
	wstest.Receive(t, stopped, "the stop")
}

// A goroutine that posts while the loop is being stopped gets either the call or the refusal, and none waits forever.
func TestStopWhileOthersPost(t *testing.T) {
	for range 30 {
		g := group(t, 2)
		l := g.Loops()[0]
		var accepted, ran atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for l.Call(func() { ran.Add(1) }) {
					accepted.Add(1)
					if l.Post(func() { ran.Add(1) }) {
						accepted.Add(1)
					}
				}
			})
		}
		for ran.Load() < 20 {
			call(t, l, func() {})
		}
		l.stop()
		wg.Wait()
		if ran.Load() != accepted.Load() {
			t.Fatalf("%d of %d functions were called", ran.Load(), accepted.Load())
		}
	}
}
