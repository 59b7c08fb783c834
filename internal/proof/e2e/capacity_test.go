//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// upgrade is a proper upgrade request, with room for more header lines.
func upgrade(path string, lines ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

// TestAllInUse fills the proxy: the next client gets an honest answer, and is served as soon as one has left.
func TestAllInUse(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t, "--sessions", "2")
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "2", "--queue", "0")
			p.settle()
			first, second := dialRaw(t, p.url("/")), dialRaw(t, p.url("/"))
			first.echo("first")
			second.echo("second")
			for range 3 {
				status, header := httpExchange(t, p.address, upgrade("/"))
				if status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" {
					t.Errorf("status %d, Retry-After %q; want 503 and 1", status, header.Get("Retry-After"))
				}
			}
			if got := p.stats().Sessions.Refused; len(got) != 1 || got["503"] != 3 {
				t.Errorf("refused: %v, want 503 three times", got)
			}
			if status, body := p.get("/readyz"); status != http.StatusOK { // busy is not broken
				t.Errorf("/readyz: %d %s", status, body)
			}
			first.close(1000, "")
			third := dialFree(t, p.url("/"))
			third.echo("third")
			second.echo("second, still")
			third.close(1000, "")
			second.close(1000, "")
			p.settle()
			sim.stopAndCheckPeak(2)
		})
	}
}

// TestReuse tells the profiles apart by what the server sees: with one-shot each session has a connection of its own, and
// what the server says at connect reaches the client; with echo one connection serves all.
func TestReuse(t *testing.T) {
	t.Parallel()
	const sessions = 5
	greeting := func(c *gorilla.Conn) error {
		if err := c.WriteMessage(gorilla.TextMessage, []byte("welcome")); err != nil {
			return err
		}
		return wstest.LibraryEcho(c)
	}
	t.Run("one-shot", func(t *testing.T) {
		t.Parallel()
		backend := wstest.StartLibraryServer(t, greeting)
		p := startReady(t, "--backend", backend.URL, "--connections", "1")
		for i := range sessions {
			c := libraries["coder"](t, func() string { p.settle(); return p.url("/") }())
			if _, m, err := c.read(); err != nil || string(m) != "welcome" {
				t.Fatalf("session %d: got %q, %v", i, m, err)
			}
			roundTrip(t, c, gorilla.TextMessage, fmt.Append(nil, "message ", i))
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
		s := p.settle()
		if seen := backend.Counts(); seen.Peak != 1 || seen.Accepted != sessions+1 {
			t.Errorf("the server saw %d connections, %d at once; want %d and 1", seen.Accepted, seen.Peak, sessions+1)
		}
		if s.Backends[0].Totals.Discarded != sessions {
			t.Errorf("totals: %+v", s.Backends[0].Totals)
		}
		for _, code := range backend.CloseCodes() { // the client's own
			if code != 1000 {
				t.Errorf("the server got the close code %d, want 1000", code)
			}
		}
	})
	t.Run("echo", func(t *testing.T) {
		t.Parallel()
		backend := wstest.StartLibraryServer(t, wstest.LibraryEcho)
		p := startReady(t, "--backend", backend.URL, "--profile", "echo", "--connections", "1")
		for i := range sessions {
			c := libraries["coder"](t, func() string { p.settle(); return p.url("/") }())
			roundTrip(t, c, gorilla.TextMessage, fmt.Append(nil, "message ", i))
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
		s := p.settle()
		if accepted := backend.Counts().Accepted; accepted != 1 || s.Backends[0].Totals.Returned != sessions {
			t.Errorf("the server saw %d connections, want 1; totals %+v", accepted, s.Backends[0].Totals)
		}
	})
}

// TestWarm keeps fewer connections than the cap until there are clients for them.
func TestWarm(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "4", "--warm", "1", "--queue", "0")
	if b := p.settle().Backends[0]; b.Idle != 1 {
		t.Errorf("%d connections are idle, want 1", b.Idle)
	}
	var clients []*rawClient
	for range 4 {
		c := dialFree(t, p.url("/"))
		c.echo("hello")
		clients = append(clients, c)
	}
	if status, _ := httpExchange(t, p.address, upgrade("/")); status != http.StatusServiceUnavailable {
		t.Errorf("status %d beyond the cap, want 503", status)
	}
	for _, c := range clients {
		c.close(1000, "")
	}
	wstest.Eventually(t, "all connections are idle", func() bool { return p.stats().Backends[0].Idle == 4 })
	sim.stopAndCheckPeak(4)
}

// TestLeastLoaded spreads clients over the backends by what is in use.
func TestLeastLoaded(t *testing.T) {
	t.Parallel()
	one, two := startSim(t), startSim(t)
	p := startReady(t, "--backend", one.url, "--backend", two.url, "--profile", "echo", "--connections", "4")
	p.settle()
	for range 6 {
		dialRaw(t, p.url("/")).echo("hello")
	}
	for _, b := range p.stats().Backends {
		if b.Leased != 3 {
			t.Errorf("%s serves %d of 6 clients, want 3", b.URL, b.Leased)
		}
	}
}
