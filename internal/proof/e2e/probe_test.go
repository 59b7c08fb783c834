//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// awaitBackend waits until what the statistics say of a backend fits, and returns it.
func (p *proxy) awaitBackend(number int, what string, fits func(backendStats) bool) backendStats {
	p.t.Helper()
	var b backendStats
	defer func() {
		if p.t.Failed() {
			p.t.Logf("backend: %+v", b)
		}
	}()
	wstest.Eventually(p.t, what, func() bool {
		b = p.stats().Backends[number]
		return fits(b)
	})
	return b
}

// TestProbe has a server's probe fail and succeed again, and once more: it gets no clients meanwhile, but keeps those that it
// has, and each change is logged once.
func TestProbe(t *testing.T) {
	t.Parallel()
	servers := []*wstest.LibraryServer{wstest.StartLibraryServer(t, wstest.LibraryEcho), wstest.StartLibraryServer(t, wstest.LibraryEcho)}
	p := startReady(t, "--backend", servers[0].URL, "--backend", servers[1].URL, "--profile", "echo", "--connections", "4",
		"--probe", "/health", "--probe-interval", "20ms", "--probe-timeout", "20s", "--probe-fall", "3", "--probe-rise", "2", "--slow-start", "0")
	isUp := func(b backendStats) bool {
		return b.Probe == "up" && b.Usable && b.ProbeReason == "" && b.Idle+b.Leased == 4
	}
	for i := range servers {
		p.awaitBackend(i, "the server is well", isUp)
	}
	const downLine, upLine = "backend taken out of service, probe fails", "backend probe succeeds"
	lasting := dialRaw(t, p.url("/"))
	lasting.echo("hello")
	it, other := 0, 1
	if p.stats().Backends[1].Leased == 1 {
		it, other = 1, 0
	}
	health := "http" + strings.TrimPrefix(servers[it].URL, "ws") + "/health"
	for round := 1; round <= 2; round++ {
		servers[it].PlainWith.Store(http.StatusInternalServerError)
		b := p.awaitBackend(it, "the server is not well", func(b backendStats) bool { return b.Probe == "down" && !b.Usable })
		if b.ProbeReason != health+" answered 500 Internal Server Error" || !b.Reachable || b.Circuit != "closed" || b.Leased != 1 {
			t.Errorf("backend: %+v", b)
		}
		var clients []*rawClient
		for range 3 {
			c := dialRaw(t, p.url("/"))
			c.echo("from the other server")
			clients = append(clients, c)
		}
		if b := p.stats().Backends; b[it].Leased != 1 || b[other].Leased != 3 {
			t.Errorf("%d clients are with the sick server and %d with the other; want 1 and 3", b[it].Leased, b[other].Leased)
		}
		lasting.echo("meanwhile")
		servers[it].PlainWith.Store(http.StatusOK)
		p.awaitBackend(it, "the server is well again", isUp)
		c := dialRaw(t, p.url("/"))
		c.echo("from the one that was sick, which has the least to do")
		if b := p.stats().Backends; b[it].Leased != 2 {
			t.Errorf("%d and %d clients are served; want 2 and 3", b[it].Leased, b[other].Leased)
		}
		for _, c := range append(clients, c) {
			c.close(1000, "")
		}
		for i := range servers {
			want := map[string]int{downLine: 0, upLine: 1}
			if i == it {
				want = map[string]int{downLine: round, upLine: 1 + round}
			}
			for line, n := range want { // the line follows the statistics
				wstest.Eventually(t, fmt.Sprintf("%q was logged %d times of backend %d", line, n, i), func() bool { return p.loggedOf(line, servers[i].URL) == n })
			}
		}
	}
	lasting.close(1000, "")
	p.settle()
}

// loggedOf returns how often the message was logged of the backend with that URL.
func (p *proxy) loggedOf(message, url string) (n int) {
	name := ""
	for _, b := range p.stats().Backends {
		if b.URL == url {
			name = b.Name
		}
	}
	for _, r := range p.logged(message) {
		if r.text("backend") == name {
			n++
		}
	}
	return n
}

// TestProbeByUpgrade has the server asked by connecting to it, within its cap.
func TestProbeByUpgrade(t *testing.T) {
	t.Parallel()
	sim := startSim(t, "--sessions", "2")
	p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "2", "--warm", "1", "--probe", "upgrade",
		"--probe-interval", "10ms", "--probe-timeout", "20s", "--probe-fall", "1")
	p.awaitBackend(0, "the server is well", func(b backendStats) bool { return b.Probe == "up" })
	for range 10 { // with no place left for the probe
		one, two := dialRaw(t, p.url("/")), dialRaw(t, p.url("/"))
		one.echo("one")
		two.echo("two")
		one.close(1000, "")
		two.close(1000, "")
	}
	if b := p.stats().Backends[0]; b.Probe != "up" || b.Totals.DialFailed > 0 {
		t.Errorf("backend: %+v", b)
	}
	if n := len(p.logged("backend taken out of service, probe fails")); n > 0 {
		t.Errorf("%d probes failed", n)
	}
	p.stop()
	sim.stopAndCheckPeak(2)
}
