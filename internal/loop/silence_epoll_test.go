//go:build linux && !portableloop

package loop

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

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
