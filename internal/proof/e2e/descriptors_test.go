//go:build unix

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// startShort runs wsbouncer serve with a limit of file descriptors.
func startShort(t testing.TB, limit int, flags ...string) *proxy {
	t.Helper()
	flags = append([]string{"--admin-socket", filepath.Join(t.TempDir(), "admin.sock")}, flags...)
	p := &proxy{child: startLimited(t, limit, append(serving(flags), flags...)...)}
	p.address = p.awaitLog("listening").text("address")
	p.admin = p.awaitLog("admin API").text("address")
	return p
}

// TestFewDescriptors keeps more connections warm than there are file descriptors for: clients are served all the same, as many as
// there are connections, no backend is blamed, and the log says once what is the matter.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startShort(t, 64, "--backend", sim.url, "--profile", "echo", "--connections", "60", "--queue", "0")
	p.awaitReady()
	limited := p.awaitLog("dialing fewer connections than wanted")
	if !strings.Contains(limited.text("reason"), "64 file descriptors") {
		t.Errorf("the reason does not name the limit: %v", limited)
	}
	if warned := p.awaitLog("file-descriptor limit too low"); !containsAll(warned.text("reason"), "limit is 64", "120 for 60 connections", "ulimit -n 320", "LimitNOFILE=320") {
		t.Errorf("the warning has no numbers, or not what to do: %v", warned)
	}
	var warm int
	wstest.Eventually(t, "at least 10 connections are warm, and none is dialed", func() bool {
		b := p.stats().Backends[0]
		warm = b.Idle
		return warm >= 10 && b.Dialing == 0
	})
	var clients []*rawClient
	for i := range warm {
		c := dialRaw(t, p.url("/"))
		c.echo(fmt.Sprintf("client %d", i))
		clients = append(clients, c)
	}
	if status, body := p.get("/readyz"); status != http.StatusOK {
		t.Errorf("/readyz with all connections in use: %d %s", status, body)
	}
	for _, c := range clients {
		c.close(1000, "")
	}
	wstest.Eventually(t, "sessions are over", func() bool { return p.stats().Sessions.Active == 0 })
	b := p.stats().Backends[0]
	if b.Circuit != "closed" || b.CircuitOpened > 0 || b.Totals.DialFailed > 0 || !b.Reachable {
		t.Errorf("the backend is blamed: %+v", b)
	}
	if n := len(p.stderr.Lines()); n > 40+warm { // a line for each session
		t.Errorf("%d lines are logged", n)
	}
	sim.stopAndCheckPeak(60)
}

// TestNoDescriptors takes all file descriptors with clients that wait in the queue of a paused service. /readyz says that no client can be
// accepted, idle connections are closed to make room, and the log says it once. When they are gone, all is as before.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startShort(t, 64, "--backend", sim.url, "--profile", "echo", "--connections", "60", "--queue-timeout", "1m")
	p.awaitReady()
	p.change("/api/v1/services/default/pause")
	var held []net.Conn
	defer func() {
		for _, nc := range held {
			_ = nc.Close()
		}
	}()
	ready := func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK }
	for ready() && len(held) < 80 {
		nc, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, nc)
		if _, err := nc.Write([]byte(upgrade("/"))); err != nil {
			t.Fatal(err)
		}
		wstest.Eventually(t, "the client waits, or cannot be accepted", func() bool { // more at once are too many unfinished handshakes
			return p.stats().Services[0].Queue.Waiting == len(held) || !ready()
		})
	}
	p.awaitUnready("clients cannot be accepted", "out of file descriptors (the limit is 64)")
	if short := strings.Join(p.stats().Shortages, "; "); !containsAll(short, "clients cannot be accepted", "out of file descriptors") {
		t.Errorf("the statistics say %q", short)
	}
	wstest.Eventually(t, "idle connections are closed", func() bool { return p.stats().Backends[0].Totals.Reasons["shed"] > 0 })
	for _, path := range []string{"/healthz", "/api/v1/stats", "/metrics"} {
		if status, body := p.get(path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, nc := range held {
		_ = nc.Close()
	}
	held = nil
	p.change("/api/v1/services/default/resume")
	over := p.awaitLog("clients can be accepted again")
	if over.number("failed_attempts") == 0 || over.number("idle_connections_closed") == 0 {
		t.Errorf("the end has no counts: %v", over)
	}
	p.awaitReady()
	c := dialFree(t, p.url("/"))
	c.echo("served again")
	c.close(1000, "")
	if n := len(p.logged("cannot accept clients: closing idle connections to servers to make room")); n != 1 {
		t.Errorf("the beginning is logged %d times", n)
	}
	if b := p.stats().Backends[0]; b.CircuitOpened > 0 || b.Totals.DialFailed > 0 {
		t.Errorf("the backend is blamed: %+v", b)
	}
	// Some of the clients may get a session before the proxy sees that they have gone: each has a line when it ends.
	if n := len(p.stderr.Lines()) - len(p.logged("session ended")); n > 40 {
		t.Errorf("%d lines are logged", n)
	}
}

// TestCheckDescriptors has check compare the limit with what may be needed.
func TestCheckDescriptors(t *testing.T) {
	t.Parallel()
	c := startLimited(t, 64, "check", "--backend", "ws://127.0.0.1:9", "--connections", "60", "--queue", "0")
	<-c.Ended()
	c.wait(0)
	if text := strings.Join(c.stderr.Lines(), "\n"); !containsAll(text, "Warning:", "limit is 64", "up to 320 may be needed", "ulimit -n 320") {
		t.Errorf("check says %q", text)
	}
}
