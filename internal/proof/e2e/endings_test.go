//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestLastWords has a one-shot backend say something after the client has closed: it still reaches the client, as if it
// were connected directly, and then the client's close is answered.
func TestLastWords(t *testing.T) {
	t.Parallel()
	closes := make(chan string, 10)
	backend := wstest.StartLibraryServer(t, func(c *gorilla.Conn) error {
		answer := c.CloseHandler()
		c.SetCloseHandler(func(code int, text string) error {
			closes <- fmt.Sprint(code, " ", text)
			if err := c.WriteMessage(gorilla.TextMessage, []byte("last words")); err != nil {
				return err
			}
			return answer(code, text)
		})
		return wstest.LibraryEcho(c)
	})
	p := startReady(t, "--backend", backend.URL, "--connections", "1")
	c := dialRaw(t, p.url("/"))
	c.echo("hello")
	c.send(closeFrame(3001, "enough"))
	c.expect(ws.NewTextFrame([]byte("last words")))
	c.expectClose(3001, "enough")
	if got := <-closes; got != "3001 enough" {
		t.Errorf("the backend got %s", got)
	}
	p.settle()
	if r := p.awaitSession(); r.text("by") != "client" || r.number("code") != 3001 || r.text("reason") != "enough" {
		t.Errorf("session: %v", r)
	}
}

// TestHungBackend has a backend answer nothing: the client that closes does not wait for it longer than the
// limit, and its connection is replaced.
func TestHungBackend(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t, "--fail", "stall:1")
			own := filepath.Join(t.TempDir(), "profiles.yaml")
			if err := os.WriteFile(own, []byte("profiles: {own: {from: "+profile+", reset: {timeout: 200ms}}}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startReady(t, "--backend", sim.url, "--profile", "own", "--profile-file", own, "--connections", "1", "--close-timeout", "200ms")
			c := dialRaw(t, p.url("/"))
			c.send(ws.NewTextFrame([]byte("are you there?")), ws.NewPingFrame([]byte("you at least")))
			c.expect(ws.NewPongFrame([]byte("you at least")))
			c.close(1000, "too slow")
			s := p.settle()
			if b := s.Backends[0]; b.Totals.Discarded != 1 || b.Totals.Dialed != 2 {
				t.Errorf("totals: %+v", b.Totals)
			}
		})
	}
}

// TestReset has a client leave before the answers: the connection serves no client until they are there, and then the
// next client, which sees none of them.
func TestReset(t *testing.T) {
	t.Parallel()
	answers := make(chan struct{})
	allow := sync.OnceFunc(func() { close(answers) })
	backend := wstest.StartLibraryServer(t, wstest.Answering(func(c *gorilla.Conn, _, kind int, message []byte) error {
		<-answers
		return c.WriteMessage(kind, message)
	}))
	t.Cleanup(allow) // before the server awaits its connections' end
	own := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(own, []byte("profiles: {own: {from: echo, reset: {timeout: 1h}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startReady(t, "--backend", backend.URL, "--profile", "own", "--profile-file", own, "--connections", "1")
	c := dialRaw(t, p.url("/"))
	for range 3 {
		c.send(ws.NewTextFrame([]byte("for me alone")))
	}
	c.close(1000, "")
	wstest.Eventually(t, "the connection is being reset", func() bool { return p.stats().Backends[0].Resetting == 1 })
	allow()
	next := dialFree(t, p.url("/"))
	next.echo("for the next")
	next.close(1000, "")
	if b := p.settle().Backends[0]; b.Totals.Dialed != 1 || b.Totals.Returned != 2 {
		t.Errorf("totals: %+v", b.Totals)
	}
}

// TestForeignAnswers has a backend that is wrongly called an echo server send what was not asked for: that reaches no
// client, and its connection is not used again.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	t.Run("in a session", func(t *testing.T) {
		t.Parallel()
		sim := startSim(t, "--fail", "late:1:50ms")
		p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "1")
		c := dialRaw(t, p.url("/"))
		c.echo("hello")
		if f := c.receive(); f.Header.OpCode != ws.OpClose {
			t.Errorf("the client got %+v %q", f.Header, f.Payload)
		} else if code, _ := ws.ParseCloseFrameData(f.Payload); code != 1011 {
			t.Errorf("closed with %d, want 1011", code)
		}
		_ = c.nc.Close()
		s := p.settle()
		if s.Relayed.FramesFromClients != 1 || s.Backends[0].Totals.Discarded != 1 {
			t.Errorf("statistics: %+v", s)
		}
	})
	t.Run("between sessions", func(t *testing.T) {
		t.Parallel()
		unasked := make(chan struct{}, 1)
		backend := wstest.StartLibraryServer(t, wstest.Answering(func(c *gorilla.Conn, _, kind int, message []byte) error {
			if err := c.WriteMessage(kind, message); err != nil || string(message) != "hello" {
				return err
			}
			<-unasked
			return c.WriteMessage(kind, message)
		}))
		t.Cleanup(func() { close(unasked) }) // before the server awaits its connections' end
		p := startReady(t, "--backend", backend.URL, "--profile", "echo", "--connections", "1")
		c := dialRaw(t, p.url("/"))
		c.echo("hello")
		c.close(1000, "")
		p.settle()
		unasked <- struct{}{}
		wstest.Eventually(t, "the connection is retired", func() bool { return p.stats().Backends[0].Totals.RetiredIdle == 1 })
		next := dialFree(t, p.url("/"))
		next.echo("next")
		next.close(1000, "")
	})
	t.Run("before any session", func(t *testing.T) {
		t.Parallel()
		sim := startSim(t, "--fail", "greeting")
		p := startProxy(t, "--backend", sim.url, "--profile", "echo", "--connections", "2")
		wstest.Eventually(t, "connections are given up", func() bool { // as failed dials, where it comes together with the 101
			b := p.stats().Backends[0].Totals
			return b.RetiredIdle+b.DialFailed > 3
		})
		if b := p.stats().Backends[0]; b.Totals.Leased > 0 {
			t.Errorf("totals: %+v", b.Totals)
		}
	})
}

// TestUselessConnections has servers whose connections cannot be used, although they are established: the proxy must not
// try again without a pause, and must say what is wrong.
func TestUselessConnections(t *testing.T) {
	t.Parallel()
	greeting := func(c *gorilla.Conn) error {
		if err := c.WriteMessage(gorilla.TextMessage, []byte("welcome")); err != nil {
			return err
		}
		return wstest.LibraryDiscard(c)
	}
	for name, serve := range map[string]func(*gorilla.Conn) error{
		"closes at once": closing(1013, "full"), "leaves at once": func(*gorilla.Conn) error { return nil }, "greets": greeting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := wstest.StartLibraryServer(t, serve)
			p := startProxy(t, "--backend", backend.URL, "--profile", "echo", "--connections", "2")
			begun := time.Now()
			wstest.Eventually(t, "a moment has passed", func() bool { _, _ = p.get("/healthz"); return time.Since(begun) > time.Second })
			if accepted := backend.Counts().Accepted; accepted > 50 {
				t.Errorf("%d connections in %v", accepted, time.Since(begun))
			}
			// For a moment after each dial there is one.
			wstest.Eventually(t, "it says what is wrong", func() bool {
				status, body := p.get("/readyz")
				return status == 503 && containsAll(body, "no connection to "+backend.URL)
			})
		})
	}
}
