//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestVanishingClients has clients go without a word in all the ways there are. Every lease ends, the pool is full again,
// and the next session has nothing of theirs.
func TestVanishingClients(t *testing.T) {
	t.Parallel()
	half := masked(ws.NewTextFrame(bytes.Repeat([]byte("half "), 100)))
	ways := []struct {
		name  string
		leave func(*rawClient)
		clean bool // with the echo profile the connection can be used again
	}{
		{"reset while idle", func(c *rawClient) { c.reset() }, true},
		{"FIN while idle", func(c *rawClient) { _ = c.nc.Close() }, true},
		{"reset with echoes under way", func(c *rawClient) {
			c.send(ws.NewTextFrame([]byte("a")), ws.NewTextFrame(make([]byte, 200_000)))
			c.reset()
		}, false}, // depends on how much had arrived
		{"reset in mid-frame", func(c *rawClient) { c.sendRaw(half[:200]); c.expectSome(100); c.reset() }, false},
		{"FIN in mid-frame", func(c *rawClient) { c.sendRaw(half[:200]); c.expectSome(100); _ = c.nc.Close() }, false},
		{"FIN in mid-header", func(c *rawClient) { c.sendRaw(half[:3]); _ = c.nc.Close() }, false},
		{"FIN in mid-message", func(c *rawClient) {
			f := ws.NewFrame(ws.OpText, false, []byte("first part"))
			c.send(f)
			c.expect(f)
			_ = c.nc.Close()
		}, false},
		{"reset in mid-message", func(c *rawClient) {
			f := ws.NewFrame(ws.OpBinary, false, nil)
			c.send(f)
			c.expect(f)
			c.reset()
		}, false},
	}
	for _, profile := range profiles {
		for _, way := range ways {
			t.Run(profile+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				sim := startSim(t)
				p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "1")
				c := dialRaw(t, p.url("/"))
				c.echo("hello")
				way.leave(c)
				s := p.settle()
				if r := p.awaitSession(); r.number("code") != 1006 || r.text("by") != "client" {
					t.Errorf("session: %v", r)
				}
				if b := s.Backends[0]; profile == "echo" && way.clean && b.Totals.Returned != 1 || profile == "one-shot" && b.Totals.Discarded != 1 {
					t.Errorf("totals: %+v", b.Totals)
				}
				next := dialFree(t, p.url("/"))
				next.echo("next")
				next.close(1000, "")
				p.settle()
				sim.stopAndCheckPeak(1)
			})
		}
	}
}

// stopAndCheckPeak ends the server and checks how many connections it has seen at once.
func (s *simulator) stopAndCheckPeak(limit int) {
	s.t.Helper()
	s.stop()
	if got := s.peak(); got > limit {
		s.t.Errorf("the server saw %d connections at once, the cap was %d", got, limit)
	}
}

// expectSome receives that many bytes, whatever they are.
func (c *rawClient) expectSome(n int64) {
	c.t.Helper()
	if _, err := io.CopyN(io.Discard, c.r, n); err != nil {
		c.t.Fatal(err)
	}
}

// TestHalfClosedClient has a client end its direction of the stream without a close frame: that ends its session.
func TestHalfClosedClient(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t)
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "1")
			c := dialRaw(t, p.url("/"))
			c.echo("hello")
			if err := c.nc.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.expectEnd()
			p.settle()
			if r := p.awaitSession(); r.number("code") != 1006 {
				t.Errorf("session: %v", r)
			}
		})
	}
}

// TestVanishingBackend kills the server and starts it again: sessions end with 1011, /readyz tells the truth, each change
// of state is logged once, and the pool fills again.
func TestVanishingBackend(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			const connections, sessions = 10, 4
			sim := startSim(t, "--listen", wstest.FreeAddress(t)) // no other socket takes its port while it is gone
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", fmt.Sprint(connections), "--queue", "0")
			p.settle()
			var clients []*rawClient
			for range sessions {
				c := dialRaw(t, p.url("/"))
				c.echo("hello")
				clients = append(clients, c)
			}
			sim.kill()
			for _, c := range clients {
				c.expectCode(1011)
			}
			p.awaitUnready("no connection to "+sim.url, "refused")
			if _, err := tryRaw(t, p.url("/")); refusedWith(err) != http.StatusServiceUnavailable {
				t.Errorf("a client of the dead server got %v", err)
			}
			wstest.Eventually(t, "several attempts fail", func() bool { return p.stats().Backends[0].Totals.DialFailed >= 3 })
			if n := len(p.logged("backend not reachable, trying again")); n != 1 {
				t.Errorf("%d lines say that the server is gone, want one", n)
			}
			again := startSim(t, "--listen", sim.address())
			p.awaitReady()
			s := p.settle()
			if b := s.Backends[0]; b.Idle != connections || !b.Reachable || b.Reason != "" {
				t.Errorf("backend: %+v", b)
			}
			if got := s.Sessions.Ended["1011"]; got != sessions {
				t.Errorf("%d sessions ended with 1011, want %d", got, sessions)
			}
			gone, back := len(p.logged("backend not reachable, trying again")), len(p.logged("backend reachable"))
			if gone != 1 || back != 2 {
				t.Errorf("%d lines say that the server is gone and %d that it is there, want 1 and 2", gone, back)
			}
			c := dialRaw(t, p.url("/"))
			c.echo("hello again")
			c.close(1000, "")
			p.settle()
			again.stopAndCheckPeak(connections)
		})
	}
}

// TestBackendEndings has backends end a session in various ways, and looks at what the client gets.
func TestBackendEndings(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name   string
		end    func(c *gorilla.Conn) error
		code   int
		reason string
	}{
		{"normal", closing(1000, "done"), 1000, "done"},
		{"application", closing(4321, "ä"), 4321, "ä"},
		{"restart", closing(1012, ""), 1012, ""},
		{"no code", func(c *gorilla.Conn) error { return c.WriteControl(gorilla.CloseMessage, nil, wstest.Deadline()) }, 0, ""},
		{"FIN", func(c *gorilla.Conn) error { return c.NetConn().(*net.TCPConn).CloseWrite() }, 1011, "backend connection lost: EOF"},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			backend := wstest.StartLibraryServer(t, func(c *gorilla.Conn) error {
				if _, _, err := c.ReadMessage(); err != nil {
					return err
				}
				if err := end.end(c); err != nil {
					return err
				}
				return wstest.LibraryDiscard(c)
			})
			for _, profile := range profiles {
				p := startReady(t, "--backend", backend.URL, "--profile", profile, "--connections", "2")
				c := dialRaw(t, p.url("/"))
				c.send(ws.NewTextFrame([]byte("end it")))
				if end.code == 0 {
					f := c.receive()
					if f.Header.OpCode != ws.OpClose || len(f.Payload) != 0 && string(f.Payload[:2]) != "\x03\xf3" {
						t.Errorf("%s: got %+v %q for a close frame without code", profile, f.Header, f.Payload)
					}
					continue
				}
				c.expectClose(end.code, end.reason)
				p.settle()
				if r := p.awaitSession(); r.text("by") != "backend" || r.number("code") != end.code || r.text("connection_fate") != "discarded" {
					t.Errorf("%s: session %v", profile, r)
				}
			}
		})
	}
}

func closing(code int, reason string) func(*gorilla.Conn) error {
	return func(c *gorilla.Conn) error {
		return c.WriteControl(gorilla.CloseMessage, gorilla.FormatCloseMessage(code, reason), wstest.Deadline())
	}
}

// TestBackendDiesInMidFrame has a backend die in the middle of a frame: no close frame can follow, so the client sees the
// connection end, and never a frame that the backend did not send.
func TestBackendDiesInMidFrame(t *testing.T) {
	t.Parallel()
	sim := startSim(t, "--fail", "midframe:1")
	p := startReady(t, "--backend", sim.url, "--connections", "1")
	c := dialRaw(t, p.url("/"))
	c.send(ws.NewTextFrame([]byte(strings.Repeat("x", 1000))))
	if f, err := c.tryReceive(); err != io.ErrUnexpectedEOF {
		t.Errorf("got %+v, %v; want the end in the middle of a frame", f.Header, err)
	}
	_ = c.nc.Close()
	p.settle()
	if r := p.awaitSession(); r.text("by") != "backend" || r.number("code") != 1011 {
		t.Errorf("session: %v", r)
	}
}

// TestSlowReaders has a backend say much more than its client reads. The proxy keeps almost none of it, other clients
// notice nothing, and in the end the client has all of it.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const size, count = 64 << 10, 1600
	var sent atomic.Int64 // messages of all floods
	backend := wstest.StartLibraryServer(t, wstest.Answering(func(c *gorilla.Conn, _, kind int, m []byte) error {
		if string(m) != "flood" {
			return c.WriteMessage(kind, m)
		}
		for i := range count {
			if err := c.WriteMessage(gorilla.BinaryMessage, flood(i, size)); err != nil {
				return err
			}
			sent.Add(1)
		}
		return nil
	}))
	p := startReady(t, "--backend", backend.URL, "--connections", "2")
	slow := dialRaw(t, p.url("/"))
	slow.echo("hello")
	receive := func() {
		for i := range count {
			slow.expect(ws.NewBinaryFrame(flood(i, size)))
		}
	}
	slow.send(ws.NewTextFrame([]byte("flood")))
	receive() // the first flood brings in code and buffers that stay
	before := residentMemory(t, p.PID())
	slow.send(ws.NewTextFrame([]byte("flood")))
	awaitStall(t, func() int { return int(sent.Load()) - count })
	if sent.Load() == 2*count {
		t.Fatalf("nothing stalled: all %d MiB went somewhere", count*size>>20)
	}
	if grown := residentMemory(t, p.PID()) - before; grown > 8<<20 {
		t.Errorf("the proxy grew by %d KiB for a client that does not read", grown>>10)
	}
	other := dialRaw(t, p.url("/"))
	other.echo("not slow")
	other.close(1000, "")
	receive()
	slow.close(1000, "")
	p.settle()
}

// flood returns one of the messages of a flood.
func flood(number, size int) []byte {
	m := bytes.Repeat([]byte{byte(number)}, size)
	copy(m, fmt.Sprintf("%08d", number))
	return m
}

// awaitStall waits until a number no longer grows.
func awaitStall(t *testing.T, number func() int) {
	t.Helper()
	last, since := -1, time.Now()
	wstest.Eventually(t, "nothing moves", func() bool {
		if n := number(); n != last {
			last, since = n, time.Now()
		}
		return last > 0 && time.Since(since) > time.Second
	})
}

// TestSlowReaderLeaves has a client that does not read vanish, with the proxy waiting for it in both directions.
func TestSlowReaderLeaves(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t)
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "1", "--max-message", "0")
			c := dialRaw(t, p.url("/"))
			c.echo("hello")
			// It sends and never reads, until what it sends is no longer read.
			wire, sent := masked(ws.NewBinaryFrame(make([]byte, 1<<20))), 0
			for {
				_ = c.nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
				n, err := c.nc.Write(wire)
				if sent += n; isTimeout(err) {
					break
				}
				if err != nil || sent > 1<<30 {
					t.Fatalf("after %d bytes: %v", sent, err)
				}
			}
			c.reset()
			p.settle()
			next := dialFree(t, p.url("/"))
			next.echo("next")
			next.close(1000, "")
			p.settle()
			// The first connection was reset in the middle of a message. A busy server notices that late, so its own count tells nothing.
		})
	}
}
