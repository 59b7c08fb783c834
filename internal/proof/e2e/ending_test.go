//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// ask sends a request without an upgrade to the clients' listener, and returns the answer.
func (p *proxy) ask(request string) string {
	p.t.Helper()
	nc, err := net.Dial("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(wstest.Deadline())
	if _, err := io.WriteString(nc, request); err != nil {
		p.t.Fatal(err)
	}
	answer, err := io.ReadAll(nc)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(answer)
}

// TestOrderlyEnd follows a proxy through its end: not ready, but still accepting clients; then waiting for sessions without a limit;
// then ending those that are left. Each stage ends because the settings change, so that the test waits for no clock.
func TestOrderlyEnd(t *testing.T) {
	t.Parallel()
	const health = "GET /healthz HTTP/1.0\r\n\r\n"
	backend := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	path := filepath.Join(t.TempDir(), "wsbouncer.yaml")
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload("shutdown-delay: 1h\ndrain-timeout: none\n")
	p := &proxy{child: startChild(t, "serve", "--settings", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json",
		"--health-path", "/healthz", "--backend", backend.URL, "--profile", "echo", "--connections", "3", "--queue", "1", "--queue-timeout", "1h")}
	p.address, p.admin = p.awaitLog("listening").text("address"), p.awaitLog("admin API").text("address")
	p.awaitReady()
	if answer := p.ask(health); !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(answer, "\r\n\r\nok\n") {
		t.Errorf("the health check of a proxy that is ready gets %q", answer)
	}
	before := dialRaw(t, p.url("/"))
	before.echo("before")

	p.signal(syscall.SIGTERM)
	p.awaitUnready("draining")
	if answer := p.ask(health); !strings.HasPrefix(answer, "HTTP/1.1 503 ") || !strings.HasSuffix(answer, "\r\n\r\ndraining\n") {
		t.Errorf("the health check of a proxy that drains gets %q", answer)
	}
	during := dialRaw(t, p.url("/"))
	during.echo("accepted although it is not ready")
	third := dialRaw(t, p.url("/"))
	third.echo("hello")
	if s := p.stats(); !s.Draining || !s.Drain.Accepting || s.Sessions.Active != 3 {
		t.Errorf("the statistics: %+v", s)
	}
	waits := make(chan string, 1)
	go func() { waits <- p.ask(wstest.UpgradeRequest("/")) }()
	wstest.Eventually(t, "a client waits in the queue", func() bool { return p.stats().Services[0].Queue.Waiting == 1 })

	reload("shutdown-delay: 0s\ndrain-timeout: none\n")
	p.signal(syscall.SIGHUP)
	if answer := <-waits; !strings.HasPrefix(answer, "HTTP/1.1 503 ") || !strings.Contains(answer, "\r\nRetry-After: 1\r\n") {
		t.Errorf("the client that waits gets %q", answer)
	}
	p.awaitLog("draining")
	wstest.Eventually(t, "no clients are accepted", func() bool {
		nc, err := net.Dial("tcp", p.address)
		if err == nil {
			_ = nc.Close()
		}
		return err != nil
	})
	if s := p.stats(); s.Drain.Accepting || !s.Drain.Deadline.IsZero() {
		t.Errorf("the statistics: %+v", s.Drain)
	}
	for _, c := range []*rawClient{before, during, third} {
		c.echo("sessions continue")
	}
	before.close(1000, "bye")
	wstest.Eventually(t, "one session has ended", func() bool { return p.stats().Sessions.Active == 2 })

	reload("drain-timeout: 50ms\n")
	p.signal(syscall.SIGHUP)
	during.expectClose(1001, "proxy shutting down")
	third.expectClose(1001, "proxy shutting down")
	p.wait(0)
	if r := p.awaitLog("stopped"); r["clean"] != false || r.number("told") != 2 {
		t.Errorf("stopped: %v", r)
	}
	if refused := p.logged("client refused"); len(refused) != 1 {
		t.Errorf("refused clients: %v", refused)
	}
}

// TestSecondSignalInDelay ends the proxy for good while it still accepts clients.
func TestSecondSignalInDelay(t *testing.T) {
	t.Parallel()
	p := startReady(t, "--backend", startSim(t).url, "--connections", "1", "--shutdown-delay", "1h")
	p.signal(syscall.SIGTERM)
	p.awaitUnready("draining")
	p.signal(syscall.SIGTERM)
	if status := p.ended(); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want by the signal", p.State())
	}
}

// TestEndBeforeReady ends a proxy that waits for its database, which accepts connections and says nothing.
func TestEndBeforeReady(t *testing.T) {
	t.Parallel()
	database, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	c := startChild(t, "serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--state-directory", t.TempDir(),
		"--database", fmt.Sprintf("postgres://nobody@%s/none?sslmode=disable", database.Addr()))
	nc, err := database.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c.signal(syscall.SIGTERM)
	c.wait(0)
	if r := c.awaitLog("stopped before it was ready"); !strings.Contains(r.text("reason"), "canceled") {
		t.Errorf("logged %v", r)
	}
}

// TestHealthPathOfAService refuses a health path that would take a service's clients away.
func TestHealthPathOfAService(t *testing.T) {
	t.Parallel()
	const file = "services:\n  stt: {path: /healthz}\nbackends:\n  gpu-1: {service: stt, url: \"ws://127.0.0.1:9\"}\n"
	path := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	const both = `service stt: path: the setting health-path already uses "/healthz": choose another path for one of them`
	for _, command := range []string{"check", "serve"} {
		r := runCommand(t, command, "--database", path, "--health-path", "/healthz", "--state-directory", t.TempDir(), "--listen", "127.0.0.1:0")
		if r.status != 1 || !strings.Contains(r.stderr, both) {
			t.Errorf("%s: status %d, %s", command, r.status, r.stderr)
		}
		r = runCommand(t, command, "--backend", good, "--path", "/healthz", "--health-path", "/healthz", "--listen", "127.0.0.1:0")
		if r.status != 2 || !strings.Contains(r.stderr, `--path: --health-path already uses "/healthz"`) {
			t.Errorf("%s: status %d, %s", command, r.status, r.stderr)
		}
		if r := runCommand(t, command, "--backend", good, "--health-path", "healthz"); r.status != 2 || !strings.Contains(r.stderr, `--health-path: invalid path "healthz": begin it with /`) {
			t.Errorf("%s: status %d, %s", command, r.status, r.stderr)
		}
	}
	p := startProxy(t, "--backend", good, "--health-path", "/healthz", "--admin-socket", filepath.Join(t.TempDir(), "admin.sock"))
	if answer := p.ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(answer, fmt.Sprint(" ", http.StatusServiceUnavailable, " ")) ||
		strings.Contains(answer, "127.0.0.1") {
		t.Errorf("without a backend: %q", answer)
	}
	for _, change := range [][]string{{"service", "add", "stt", "--path", "/healthz"}, {"config", "import", path}} {
		if r := runCommand(t, append(change, "--yes", "--admin", p.socket())...); r.status != 2 || !strings.Contains(r.stderr, both) {
			t.Errorf("%v: status %d, %s", change, r.status, r.stderr)
		}
	}
}

// TestServiceManager plays systemd for a unit of Type=notify with a watchdog.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	address, path := filepath.Join(directory, "notify"), filepath.Join(directory, "wsbouncer.yaml")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.SetReadDeadline(wstest.Deadline())
	// next returns the next message that begins with the text.
	next := func(prefix string) string {
		t.Helper()
		for {
			buf := make([]byte, 4096)
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", prefix, err)
			}
			if message := string(buf[:n]); strings.HasPrefix(message, prefix) {
				return message
			}
		}
	}
	if err := os.WriteFile(path, []byte("drain-timeout: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("env", "NOTIFY_SOCKET="+address, "WATCHDOG_USEC=200000", binary, "serve", "--settings", path, "--listen", "127.0.0.1:0", "--log-format", "json",
		"--backend", startSim(t).url, "--connections", "1")
	p := &proxy{child: start(t, "serve", cmd)}
	next("STATUS=Starting")
	if ready := next("READY=1"); !strings.HasPrefix(ready, "READY=1\nSTATUS=Serving: sessions: 0, waiting clients: 0, usable backends: ") {
		t.Errorf("ready: %q", ready)
	}
	p.address = p.awaitLog("listening").text("address")
	for range 3 {
		next("WATCHDOG=1")
	}
	p.signal(syscall.SIGHUP)
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1")
	c := dialRaw(t, p.url("/"))
	c.echo("hello")
	p.signal(syscall.SIGTERM)
	next("STOPPING=1\nEXTEND_TIMEOUT_USEC=")
	next("WATCHDOG=1") // also while it drains
	c.echo("the session continues")
	c.close(1000, "")
	p.wait(0)
}
