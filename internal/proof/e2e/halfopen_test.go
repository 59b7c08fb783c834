//go:build unix

package e2e

import (
	"syscall"
	"testing"
	"time"
)

// dialCounted begins a session and returns the number of the backend that serves it. No other may begin meanwhile.
func (p *proxy) dialCounted() (c *rawClient, backend int) {
	p.t.Helper()
	before := p.stats().Backends
	c = dialRaw(p.t, p.url("/"))
	c.echo("which one is it?")
	backend = -1
	for i, b := range p.stats().Backends {
		if b.Totals.Leased > before[i].Totals.Leased {
			backend = i
		}
	}
	return c, backend
}

// TestHalfOpenBackend stops a server's process, so that its connections stay open but nothing is answered: its
// sessions end, it is taken out of service, and once it continues it comes back.
func TestHalfOpenBackend(t *testing.T) {
	t.Parallel()
	sims := []*simulator{startSim(t), startSim(t)}
	t.Cleanup(func() { _ = sims[0].Signal(syscall.SIGCONT) }) // it would not end otherwise
	p := startReady(t, "--backend", sims[0].url, "--backend", sims[1].url, "--profile", "echo", "--connections", "4", "--loops", "1",
		"--ping-interval", "500ms", "--ping-timeout", "5s", "--dial-timeout", "1s", "--circuit-failures", "2", "--slow-start", "0")
	p.settle()
	var served [2][]*rawClient
	for range 4 {
		c, backend := p.dialCounted()
		served[backend] = append(served[backend], c)
	}
	if len(served[0]) != 2 || len(served[1]) != 2 {
		t.Fatalf("%d and %d clients are served, want 2 and 2", len(served[0]), len(served[1]))
	}
	sims[0].signal(syscall.SIGSTOP)
	stopped := time.Now()
	for _, c := range served[0] {
		c.expectClose(1011, "backend connection lost: no answer to a ping within 5s")
	}
	t.Logf("all sessions of the stopped server had ended after %v", time.Since(stopped))
	p.awaitBackend(0, "the circuit is open", func(b backendStats) bool {
		return b.CircuitOpened == 1 && b.Circuit != "closed" && !b.Usable && b.Broken == 2 && b.Totals.Reasons["silent"] >= 2
	})
	for range 2 {
		if c, backend := p.dialCounted(); backend != 1 {
			t.Errorf("served by backend %d, want the other", backend)
		} else {
			served[1] = append(served[1], c)
		}
	}
	waiting := p.enqueue() // for whichever comes first
	p.awaitBackend(0, "an attempt to dial fails", func(b backendStats) bool { return b.Totals.DialFailed > 0 && !b.Reachable })
	for _, c := range served[1] {
		c.echo("nothing happened here")
	}
	sims[0].signal(syscall.SIGCONT)
	first := waiting.begin()
	first.echo("it is back")
	p.awaitBackend(0, "the server is back in service", func(b backendStats) bool {
		return b.Circuit == "closed" && b.Usable && b.Reachable && b.Idle == 3 && b.Leased == 1
	})
	if c, backend := p.dialCounted(); backend != 0 {
		t.Errorf("served by backend %d, want the one that is back", backend)
	} else {
		c.close(1000, "")
	}
	for _, c := range append(served[1], first) {
		c.close(1000, "")
	}
	s := p.settle()
	if got := s.Sessions.Ended; got["1011"] != 2 || got["1000"] != 6 {
		t.Errorf("sessions ended: %v", got)
	}
	for _, line := range []string{"backend taken out of service, circuit open", "backend back in service, circuit closed"} {
		if n := p.loggedOf(line, sims[0].url); n != 1 {
			t.Errorf("%q was logged %d times, want once", line, n)
		}
	}
}
