//go:build linux && !portableloop

package relay

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A client that ends its part while its backend takes nothing is noticed, though nothing is read from it, and does not
// hold the lease for ever. (The portable driver does not notice it.)
func TestClientLeavesWhileBackendIsSlow(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 50 * time.Millisecond }})
	client, _ := r.Session()
	chunk := client.Encode(true, frame.Binary, wstest.Noise(1, 32<<10))
	wstest.Eventually(t, "the client is no longer read", func() (paused bool) {
		r.on(func(s *Session) { paused = s.client.Paused() })
		if !paused {
			client.SendBytes(chunk)
		}
		return paused
	})
	if err := client.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.expectRecord(fate{"client", frame.AbnormalClosure, "client left while its backend accepted nothing", "discarded"})
	client.ExpectClose(frame.GoingAway, "client left while its backend accepted nothing") // 1006 is for logs only
}

// One whose backend continues has everything passed on, and ends as if nothing had been in the way.
func TestClientLeavesBeforeBackendContinues(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	chunk := client.Encode(true, frame.Binary, wstest.Noise(1, 32<<10))
	sent := 0
	wstest.Eventually(t, "the client is no longer read", func() (paused bool) {
		r.on(func(s *Session) { paused = s.client.Paused() })
		if !paused {
			client.SendBytes(chunk)
			sent++
		}
		return paused
	})
	if err := client.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wstest.Eventually(t, "the end is noticed", func() (noticed bool) {
		r.on(func(s *Session) { noticed = s.timer.Active() })
		return noticed
	})
	for range sent {
		server.Expect(frame.Binary, string(wstest.Noise(1, 32<<10)))
	}
	r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
}

// One that has ended its part behind a message that waits gets no other connection: neither when its server is full, nor when that dies.
func TestClientLeavesBeforeServerIsFull(t *testing.T) {
	const nothing = "client left while its backend accepted nothing"
	for name, c := range map[string]struct {
		failover bool
		end      func(server *wstest.Peer)
		fate     fate
	}{
		"full":                {false, func(p *wstest.Peer) { p.Send(frame.Text, `{"status": "WAIT"}`) }, fate{"client", 1006, nothing, "discarded"}},
		"full, with failover": {true, func(p *wstest.Peer) { p.Send(frame.Text, `{"status": "WAIT"}`) }, fate{"client", 1006, nothing, "discarded"}},
		"dies": {true, (*wstest.Peer).Reset, fate{
			"backend", frame.InternalError, "backend connection lost: connection reset by peer", "discarded",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "whisperlive", 2, setup{Queue: 1, Service: func(s *route.Service) { s.CloseTimeout, s.Failover = time.Hour, c.failover }})
			client, server, n := r.Begin()
			client.Send(frame.Text, `{"uid": "a"}`)
			client.Send(frame.Binary, "audio")
			server.Expect(frame.Text, `{"uid": "a"}`)
			if err := client.TCP().CloseWrite(); err != nil {
				t.Fatal(err)
			}
			wstest.Eventually(t, "the end is noticed", func() (noticed bool) {
				r.on(func(s *Session) { noticed = s.isLeaving() })
				return noticed
			})
			c.end(server)
			r.expectRecord(c.fate)
			if leased := r.Backends[1-n].Stats().Totals.Leased; leased != 0 {
				t.Errorf("%d connections were leased for a client that had left", leased)
			}
		})
	}
}

// A client whose connection breaks while it is held back is noticed. (The portable driver notices it when the client is read again.)
func TestResetWhileHeldBack(t *testing.T) {
	r := limitedRig(t, setup{}, once, limits.Limits{})
	client, _ := r.heldBackSession()
	client.Reset()
	r.Line("session ended")
}

// One that ends its stream while it is held back, for longer than the close timeout, does not hold the lease for ever.
func TestClientLeavesWhileHeldBack(t *testing.T) {
	r := limitedRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 50 * time.Millisecond }}, once, limits.Limits{})
	client, _ := r.heldBackSession()
	client.Send(frame.Text, "three")
	if err := client.TCP().CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.expectRecord(fate{"client", frame.AbnormalClosure, "client left while a limit held back what it had sent", "discarded"})
}

// One whose limit recovers soon has everything passed on before its end.
func TestClientLeavesBeforeItsTurn(t *testing.T) {
	r := limitedRig(t, setup{}, limits.Limits{MessageRate: limits.Rate{N: 1, Per: 30 * time.Millisecond}}, limits.Limits{})
	client, server := r.Session()
	for i := range 5 {
		client.Send(frame.Text, fmt.Sprint(i))
	}
	if err := client.TCP().CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		server.Expect(frame.Text, fmt.Sprint(i))
	}
	r.expectRecord(fate{"client", frame.AbnormalClosure, leftWithoutClose, "discarded"})
}

var _ loop.EndingHandler = (*clientSide)(nil)
