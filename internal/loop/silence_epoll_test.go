//go:build linux && !portableloop

package loop

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// Sockets are taken to be silent after two wake-ups without them, and at once not to be any more.
func TestSilence(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := pair(t)
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
	if n := wait(t, arrived, "bytes"); n != 0 {
		t.Errorf("silent for %d wake-ups while something arrives", n)
	}
}

// A loop that keeps its P while it waits must not hold up a collection of garbage.
func TestCollectsGarbageWhileSocketsAreSilent(t *testing.T) {
	l := group(t, 1).Pick()
	near, far := pair(t)
	add(t, l, near, &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}, nil)
	for range 5 {
		if _, err := far.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		mustRead(t, far, []byte("ping"), false)
		runtime.GC()
	}
}

// The same without the scheduler's signals, in another process since these cannot be switched off later.
func TestCollectsGarbageWithoutSignals(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a world that has stopped has no timers of its own
	defer cancel()
	test := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCollectsGarbageWhileSocketsAreSilent$")
	test.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
