//go:build unix

package e2e

import (
	"encoding/json"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestLoopsFollowLoad loads the proxy until a second event loop wakes, with sessions moving to it, and then lets go until
// one is enough again. It does not run in parallel: other tests would take the processors away.
func TestLoopsFollowLoad(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("with one processor a second event loop has nothing to run on")
	}
	sim := startSim(t, "--quiet")
	p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "50", "--loops", "2")
	if s := p.settle(); s.Loops.Awake != 1 || s.Loops.Moved != 0 {
		t.Errorf("at rest: %+v", s.Loops)
	}
	bench := startChild(t, "bench", p.url("/"), "--connections", "50", "--rate", "5000", "--window", "8", "--size", "256",
		"--duration", "1m", "--json", "--quiet")
	eventually(t, "a second loop is awake and has sessions", func() bool {
		s := p.stats()
		return s.Loops.Awake == 2 && s.Loops.Moved > 0
	})
	bench.signal(syscall.SIGINT)
	bench.wait(0)
	var result struct{ Connected, Sent, Received, Lost, Mixed, Failed int }
	if err := json.Unmarshal([]byte(strings.Join(bench.output(), "\n")), &result); err != nil {
		t.Fatal(err)
	}
	if result.Connected != 50 || result.Sent == 0 || result.Received != result.Sent || result.Lost+result.Mixed+result.Failed > 0 {
		t.Errorf("the load: %+v", result)
	}
	eventually(t, "one loop is enough again", func() bool { return p.stats().Loops.Awake == 1 })
	p.settle()
	c := dialRaw(t, p.url("/"))
	c.echo("after all that")
	c.close(1000, "")
}
