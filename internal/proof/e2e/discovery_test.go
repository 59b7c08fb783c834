//go:build linux

package e2e

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/dnstest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestDiscovery has a proxy find its servers by a real DNS server: they come, one goes while a session is on it, DNS fails, and one answer
// leads to the proxy itself.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	first, err := sim.Start(sim.Options{Sessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.Close)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(first.URL(), "ws://"))
	second, err := sim.Start(sim.Options{Listen: "127.0.0.2:" + port, Sessions: 2})
	if err != nil {
		t.Skipf("the port is taken on the other address: %v", err)
	}
	t.Cleanup(second.Close)
	dns := dnstest.Start(t)
	p := startProxy(t, "--listen", "127.0.0.3:"+port, "--profile", "echo", "--dns-server", dns.Address(),
		"--backend", "ws://stt.test:"+port+",discover=dns,discover-interval=1s,connections=2")
	p.awaitUnready("no server for ws://stt.test:"+port, "lookup stt.test on "+dns.Address()+": no such host")

	dns.Set("stt.test.", "127.0.0.1")
	p.awaitReady()
	running := func() (names []string) {
		for _, b := range p.stats().Backends {
			_, address, _ := strings.Cut(b.Name, "@")
			names = append(names, fmt.Sprint(address, " ", b.Idle+b.Leased))
		}
		return names
	}
	await := func(what string, want ...string) {
		t.Helper()
		wstest.Eventually(t, what, func() bool { return slices.Equal(running(), want) })
	}
	await("the first server runs", "127.0.0.1:"+port+" 2")
	c := dialRaw(t, p.url("/"))
	c.echo("on the first server")

	dns.Set("stt.test.", "127.0.0.2", "127.0.0.3") // the last is the proxy
	wstest.Eventually(t, "the first server is leaving", func() bool { return len(p.stats().Leaving) == 1 })
	await("the second server runs", "127.0.0.2:"+port+" 2")
	c.echo("still there")
	p.awaitLog("DNS answer has addresses that are not used")

	dns.Remove("stt.test.")
	if reason := p.awaitLog("DNS lookup failed, the servers that are known stay").text("reason"); !strings.Contains(reason, "no such host") {
		t.Errorf("the reason is %q", reason)
	}
	await("the second server stays", "127.0.0.2:"+port+" 2")
	other := dialRaw(t, p.url("/"))
	other.echo("on the second server")
	other.close(1000, "bye")
	c.echo("still there")
	c.close(1000, "bye")
	wstest.Eventually(t, "the first server is gone", func() bool { return len(p.stats().Leaving) == 0 })
	wstest.Eventually(t, "the metrics lack the first server, and have the failing lookup", func() bool {
		_, metrics := p.get("/metrics")
		return !strings.Contains(metrics, "@127.0.0.1:"+port) &&
			strings.Contains(metrics, `wsbouncer_discovery_failing{backend="stt.test-`+port+`",service="default"} 1`)
	})
	for _, s := range []*sim.Server{first, second} {
		if refused := s.Stats().Refused; refused > 0 {
			t.Errorf("%s had to refuse %d connections", s.URL(), refused)
		}
	}
}
