//go:build unix

package e2e

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestUnusableBackends starts the proxy with servers that cannot be used: it runs, says why in /readyz, logs it once and
// not at each attempt, and refuses clients.
func TestUnusableBackends(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("just a web page\n"))
	}))
	t.Cleanup(plain.Close)
	full := startSim(t, "--fail", "refuse")
	for _, c := range []struct {
		name   string
		url    string
		reason string
		flags  []string
	}{
		{"no WebSocket", "ws" + strings.TrimPrefix(plain.URL, "http"), "server answered 200 OK instead of upgrading", nil},
		{"full", full.url, "server answered 503 Service Unavailable instead of upgrading", nil},
		{"no server", "ws://" + wstest.FreeAddress(t), "connection refused", nil},
		{"no answer", "ws://" + mute(t), "no answer to the upgrade request", []string{"--dial-timeout", "300ms"}},
		{"no HTTP", "ws://" + greeter(t, "SSH-2.0-OpenSSH\r\n\r\n"), "did not answer with HTTP/1.1", nil},
		{"leaves", "ws://" + greeter(t, ""), "", nil}, // how, is up to the moment
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, append([]string{"--backend", c.url, "--connections", "10", "--queue", "0"}, c.flags...)...)
			p.awaitUnready("no connection to "+c.url, c.reason)
			wstest.Eventually(t, "several attempts fail", func() bool { return p.stats().Backends[0].Totals.DialFailed >= 14 })
			b := p.stats().Backends[0]
			if b.Reachable || !strings.Contains(b.Reason, c.reason) || b.Idle > 0 || b.Totals.Dialed > 0 {
				t.Errorf("backend: %+v", b)
			}
			lines := p.logged("backend not reachable, trying again")
			if len(lines) != 1 || !strings.Contains(lines[0].text("reason"), c.reason) {
				t.Errorf("%d lines after %d attempts: %v", len(lines), b.Totals.DialFailed, lines)
			}
			if status, header := httpExchange(t, p.address, upgrade("/")); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
				t.Errorf("status %d, Retry-After %q; want 503 with it", status, header.Get("Retry-After"))
			}
			p.stop()
			if got := asked.Load(); got > 40 {
				t.Errorf("the server was asked %d times within moments", got)
			}
		})
	}
}

// mute listens for the time of the test, and neither reads nor writes.
func mute(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// greeter listens for the time of the test, and has one thing to say to everybody.
func greeter(t testing.TB, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = nc.Write([]byte(text))
			if text == "" {
				_ = nc.(*net.TCPConn).SetLinger(0)
			}
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// TestOneBadBackend has one server of two down: clients are served by the other, /readyz is 200, and the statistics name the one.
func TestOneBadBackend(t *testing.T) {
	t.Parallel()
	good, bad := startSim(t), "ws://"+wstest.FreeAddress(t)
	p := startProxy(t, "--backend", bad, "--backend", good.url, "--profile", "echo", "--connections", "1")
	p.awaitReady()
	if b := p.stats().Backends[0]; b.URL != bad || b.Reachable || !strings.Contains(b.Reason, "refused") {
		t.Errorf("backend: %+v", b)
	}
	c := dialFree(t, p.url("/"))
	c.echo("hello")
	c.close(1000, "")
}
