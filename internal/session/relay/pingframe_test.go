package relay

import (
	"io"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A ping to a backend that takes nothing waits until it does. It is not judged meanwhile, since it has not been asked.
func TestPingWaitsForSlowBackend(t *testing.T) {
	t.Parallel()
	large := wstest.ClientFrame(true, frame.Binary, wstest.Noise(1, 16<<20))
	l, quiet := newLively(), make(chan struct{})
	l.instead = func(p *wstest.Peer, _ frame.Opcode, text string) bool {
		if text != "take no more" {
			return false
		}
		<-quiet
		_, _ = io.CopyN(io.Discard, p, int64(len(large))) // not unmasked: what is behind it waits for an answer
		_, _ = p.Conn.Write(p.Encode(true, frame.Text, []byte("taken")))
		return true
	}
	r := newRig(t, setup{Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	client.Ask("hello")
	sent := make(chan error, 1)
	go func() {
		_, err := client.Conn.Write(slicesOf(client.Encode(true, frame.Text, []byte("take no more")), large))
		sent <- err
	}()
	wstest.Eventually(t, "the backend is slow", func() (slow bool) {
		r.on(func(s *Session) { slow = s.leg.conn.Stream().Pending() > 0 })
		return slow
	})
	looks := 0
	wstest.Eventually(t, "several pongs would have been due", func() bool {
		r.on(func(s *Session) {
			if s.leg.up.pinging { // the next look, if nothing is concluded before, will make it so again
				s.leg.up.pinging = false
				looks++
			}
		})
		return looks == 3
	})
	close(quiet)
	client.Expect(frame.Text, "taken")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	l.awaitPings(t, 2)
	client.Ask("still here")
}

// A session that moves between event loops takes the timer of its pings with it.
func TestMoveTakesPings(t *testing.T) {
	t.Parallel()
	l := newLively()
	r := newRig(t, setup{Loops: 2, Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	moves, stop := r.mover()
	defer stop()
	l.awaitPings(t, 6)
	client.Ask("still here")
	l.deaf.Store(true)
	client.ExpectClose(frame.InternalError, "backend connection lost: no answer to a ping within 1s")
	if n := moves.Load(); n < 20 {
		t.Errorf("only %d moves", n)
	}
}
