//go:build unix

package e2e

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestStatistics counts all that goes through the proxy and compares it with what the proxy says, in its statistics and
// in its log.
func TestStatistics(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			const connections, clients, sessionsEach = 5, 10, 4
			one, two := startSim(t), startSim(t)
			p := startReady(t, "--backend", one.url, "--backend", two.url, "--profile", profile, "--connections", strconv.Itoa(connections))
			p.settle()
			var frames, bytes atomic.Uint64
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					for j := range sessionsEach {
						c := dialFree(t, p.url("/"))
						for k := range 10 {
							f := ws.NewFrame(ws.OpText, false, message(i, j, 3*k))
							rest := ws.NewFrame(ws.OpContinuation, true, make([]byte, 70000*(k/8)))
							c.send(f, ws.NewPingFrame([]byte("not counted")), rest)
							frames.Add(2)
							bytes.Add(uint64(len(f.Payload) + len(rest.Payload)))
							c.expectMessage(len(f.Payload) + len(rest.Payload))
						}
						c.close(1000, "")
					}
				})
			}
			all.Wait()
			s := p.settle()
			want := relayed{frames.Load(), bytes.Load(), frames.Load(), bytes.Load()}
			if s.Relayed != want {
				t.Errorf("relayed %+v, want %+v", s.Relayed, want)
			}
			if want := uint64(clients * sessionsEach); s.Sessions.Total != want || s.Sessions.Ended["1000"] != want {
				t.Errorf("%d sessions, ended %v; want %d, all with 1000", s.Sessions.Total, s.Sessions.Ended, want)
			}
			var ended []record // through a pipe, so a little later
			wstest.Eventually(t, "all sessions are in the log", func() bool {
				ended = p.logged("session ended")
				return len(ended) == clients*sessionsEach
			})
			var logged relayed
			for _, r := range ended {
				logged.FramesFromClients += uint64(r.number("frames_from_client"))
				logged.BytesFromClients += uint64(r.number("bytes_from_client"))
				logged.FramesFromBackends += uint64(r.number("frames_from_backend"))
				logged.BytesFromBackends += uint64(r.number("bytes_from_backend"))
			}
			if logged != want {
				t.Errorf("logged %+v, want %+v", logged, want)
			}
			for _, b := range s.Backends {
				if profile == "echo" && b.Totals.Returned != b.Totals.Leased || profile == "one-shot" && b.Totals.Discarded != b.Totals.Leased {
					t.Errorf("totals: %+v", b.Totals)
				}
			}
			p.stop()
			one.stopAndCheckPeak(connections)
			two.stopAndCheckPeak(connections)
		})
	}
}

// expectMessage receives frames up to the end of a message of that size, with pongs anywhere between them.
func (c *rawClient) expectMessage(size int) {
	c.t.Helper()
	for got := 0; ; {
		f := c.receive()
		if f.Header.OpCode.IsControl() {
			continue
		}
		got += len(f.Payload)
		if !f.Header.Fin {
			continue
		}
		if got != size {
			c.t.Errorf("a message of %d bytes, want %d", got, size)
		}
		return
	}
}

// TestCap counts connections at the server while many clients come and go, more than it has room for.
func TestCap(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			const connections, clients, sessionsEach = 3, 12, 8
			backend := wstest.StartLibraryServer(t, wstest.LibraryEcho)
			p := startReady(t, "--backend", backend.URL, "--profile", profile, "--connections", strconv.Itoa(connections), "--warm", "2")
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					for j := range sessionsEach {
						c := dialFree(t, p.url("/"))
						c.echo(fmt.Sprint(i, j))
						switch (i + j) % 4 {
						case 0:
							c.reset()
						case 1:
							c.sendRaw(masked(ws.NewTextFrame([]byte("never complete")))[:9])
							_ = c.nc.Close()
						default:
							c.close(1000, "")
						}
					}
				})
			}
			all.Wait()
			wstest.Eventually(t, "all sessions are over", func() bool {
				s := p.stats()
				b := s.Backends[0]
				return s.Sessions.Active == 0 && b.Leased+b.Resetting+b.Retiring+b.Dialing == 0
			})
			p.checkBooks(p.stats())
			if peak := backend.Counts().Peak; peak > connections {
				t.Errorf("the server saw %d connections at once, the cap is %d", peak, connections)
			}
		})
	}
}
