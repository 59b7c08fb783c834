//go:build linux && !portableloop

package session

import (
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// A client that ends its part while its backend takes nothing is noticed, though nothing is read from it, and does not
// hold the lease for ever. (The portable driver does not notice it.)
func TestClientLeavesWhileBackendIsSlow(t *testing.T) {
	r := newRig(t, setup{service: func(s *Service) { s.CloseTimeout = 50 * time.Millisecond }})
	client, _ := r.session()
	chunk := client.Encode(true, frame.Binary, wstest.Noise(1, 32<<10))
	wstest.Eventually(t, "the client is not read any more", func() (paused bool) {
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
}

// One whose backend goes on has everything passed on, and ends as if nothing had been in the way.
func TestClientLeavesBeforeBackendGoesOn(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.session()
	chunk := client.Encode(true, frame.Binary, wstest.Noise(1, 32<<10))
	sent := 0
	wstest.Eventually(t, "the client is not read any more", func() (paused bool) {
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

var _ loop.EndingHandler = (*clientSide)(nil)
