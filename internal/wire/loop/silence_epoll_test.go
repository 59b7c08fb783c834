//go:build linux && !portableloop

package loop

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// After silentAfter wake-ups without a socket event a loop hands its P back, and after one socket event it keeps it again.
func TestSilence(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	arrived := make(chan int)
	add(t, l, near, &script{received: func(_ *Conn, b []byte) int { arrived <- l.driver.silentWakeups; return len(b) }}, nil)
	silent := func() (n int) { call(t, l, func() { n = l.driver.silentWakeups }); return n }
	for range silentAfter {
		silent()
	}
	if n := silent(); n < silentAfter {
		t.Errorf("silent for %d wake-ups, want %d or more", n, silentAfter)
	}
	if _, err := far.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if n := wstest.Receive(t, arrived, "bytes"); n != 0 {
		t.Errorf("silent for %d wake-ups while something arrives", n)
	}
}

// A loop that keeps its P while it waits must not block a garbage collection.
func TestCollectsGarbageWhileSocketsAreSilent(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := wstest.Pair(t)
	add(t, l, near, &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}, nil)
	for range 5 {
		if _, err := far.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		mustRead(t, far, []byte("ping"), false)
		runtime.GC()
	}
}

// The same without the scheduler's signals, in another process, because they can be turned off only at the start.
func TestCollectsGarbageWithoutSignals(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), wstest.Timeout) // a process that has stopped has no timers
	defer cancel()
	test := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCollectsGarbageWhileSocketsAreSilent$")
	test.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
