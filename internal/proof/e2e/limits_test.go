//go:build unix

package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestSessionLimits has sessions run into each limit: the client is told which.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	text := func(size int) ws.Frame { return ws.NewTextFrame(message(1, 1, size)[:size]) }
	part := func(op ws.OpCode, fin bool, size int) ws.Frame { return ws.NewFrame(op, fin, make([]byte, size)) }
	unmasked := ws.MustCompileFrame(text(5))
	for _, limit := range []struct {
		name   string
		flags  []string
		breach func(*rawClient)
		code   int
		reason string
	}{
		{"idle", []string{"--idle-timeout", "2s"}, func(*rawClient) {}, 1008, "idle limit reached"},
		{"idle after pings", []string{"--idle-timeout", "2s"}, func(c *rawClient) { // pings are not traffic
			for range 3 {
				c.send(ws.NewPingFrame(nil))
				c.expect(ws.NewPongFrame(nil))
			}
		}, 1008, "idle limit reached"},
		{"session", []string{"--max-session", "2s"}, func(c *rawClient) {
			go func() { // busy until the end
				for range time.Tick(10 * time.Millisecond) {
					if c.trySend(text(5)) != nil {
						return
					}
				}
			}()
		}, 1008, "session limit reached"},
		{"message", []string{"--max-message", "1KiB"}, func(c *rawClient) { c.send(text(1024), text(1025)) }, 1009, "message over the size limit"},
		{"huge message", nil, func(c *rawClient) { // only announced
			c.sendRaw(masked(ws.Frame{Header: ws.Header{Fin: true, OpCode: ws.OpBinary, Length: 1 << 40}})[:14])
		}, 1009, "message over the size limit"},
		{"message in fragments", []string{"--max-message", "1KiB"}, func(c *rawClient) {
			c.send(part(ws.OpBinary, false, 600), part(ws.OpContinuation, false, 424), part(ws.OpContinuation, true, 1))
		}, 1009, "message over the size limit"},
		{"not UTF-8", nil, func(c *rawClient) { c.send(ws.NewTextFrame([]byte("fine up to here \xff"))) }, 1007, ""},
		{"not masked", nil, func(c *rawClient) { c.sendRaw(unmasked) }, 1002, ""},
		{"reserved bit", nil, func(c *rawClient) { c.sendRaw([]byte{0xc1, 0x80, 0, 0, 0, 0}) }, 1002, ""},
		{"unknown opcode", nil, func(c *rawClient) { c.sendRaw([]byte{0x83, 0x80, 0, 0, 0, 0}) }, 1002, ""},
		{"close code 1005", nil, func(c *rawClient) { c.send(closeFrame(1005, "")) }, 1002, ""},
	} {
		for _, profile := range profiles {
			t.Run(profile+"/"+limit.name, func(t *testing.T) {
				t.Parallel()
				sim := startSim(t)
				p := startReady(t, append([]string{"--backend", sim.url, "--profile", profile, "--connections", "1"}, limit.flags...)...)
				c := dialRaw(t, p.url("/"))
				c.echo("hello")
				limit.breach(c)
				if reason := c.expectCode(limit.code); limit.reason != "" && reason != limit.reason {
					t.Errorf("reason %q, want %q", reason, limit.reason)
				}
				p.settle()
				if r := p.awaitSession(); r.number("code") != limit.code {
					t.Errorf("session: %v", r)
				}
				next := dialFree(t, p.url("/"))
				next.echo("next")
				next.close(1000, "")
				p.settle()
				sim.stopAndCheckPeak(1)
				if n := len(sim.logged("a client broke the protocol")); n > 0 {
					t.Errorf("the server has seen the client's error")
				}
			})
		}
	}
}

// TestIdleLimitSpares has a session that says little, but often enough.
func TestIdleLimitSpares(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1", "--idle-timeout", "5s")
	var c *rawClient
	var begun, last time.Time
	wstest.Eventually(t, "more than the limit has passed", func() bool {
		if c == nil {
			c, begun, last = dialFree(t, p.url("/")), time.Now(), time.Now()
		}
		err := c.trySend(ws.NewTextFrame([]byte("here")))
		f, errReceive := c.tryReceive()
		switch late := time.Since(last) > 2*time.Second; {
		case late: // the machine stood still: the session may have ended, and rightly
			_ = c.nc.Close()
			c = nil
			return false
		case err != nil || errReceive != nil || f.Header.OpCode != ws.OpText:
			t.Fatalf("received %+v %.40q, %v", f.Header, f.Payload, errors.Join(err, errReceive))
		}
		last = time.Now()
		return time.Since(begun) > 6*time.Second
	})
	c.close(1000, "")
	p.settle()
}
