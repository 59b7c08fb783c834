package session

import (
	"io"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// answerPings answers the pings that come before anything else.
func (p *peer) answerPings() {
	p.t.Helper()
	for {
		b, err := p.in.Peek(1)
		if err != nil {
			p.t.Fatal(err)
		}
		if frame.Opcode(b[0]&0xf) != frame.Ping {
			return
		}
		p.answerPing()
	}
}

// answerPing answers the ping that must come now.
func (p *peer) answerPing() {
	p.t.Helper()
	h, payload, err := p.next()
	if err != nil || h.Opcode != frame.Ping || len(payload) != 8 {
		p.t.Fatalf("got %v %q, %v; want a ping", h.Opcode, payload, err)
	}
	p.send(frame.Pong, string(payload))
}

// A ping to a backend that takes nothing waits until it does. It is not judged meanwhile, since it has not been asked.
func TestPingWaitsForSlowBackend(t *testing.T) {
	t.Parallel()
	large := (&peer{}).encode(true, frame.Binary, noise(1, 16<<20))
	l, quiet := newLively(), make(chan struct{})
	l.instead = func(p *peer, _ frame.Opcode, text string) bool {
		if text != "take no more" {
			return false
		}
		<-quiet
		_, _ = io.CopyN(io.Discard, p.in, int64(len(large))) // not unmasked: what is behind it waits for an answer
		_, _ = p.Conn.Write(p.encode(true, frame.Text, []byte("taken")))
		return true
	}
	r := newRig(t, setup{script: &script{serve: l.serve}, backend: pinging(pongTimeout)})
	client := r.join()
	client.ask("hello")
	sent := make(chan error, 1)
	go func() {
		_, err := client.Conn.Write(slicesOf(client.encode(true, frame.Text, []byte("take no more")), large))
		sent <- err
	}()
	eventually(t, "the backend is slow", func() (slow bool) {
		r.on(func(s *Session) { slow = s.leg.conn.Stream().Pending() > 0 })
		return slow
	})
	looks := 0
	eventually(t, "several pongs would have been due", func() bool {
		r.on(func(s *Session) {
			if s.leg.up.pinging { // the next look, if nothing is concluded before, will make it so again
				s.leg.up.pinging = false
				looks++
			}
		})
		return looks == 3
	})
	close(quiet)
	client.expect(frame.Text, "taken")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	l.awaitPings(t, 2)
	client.ask("still here")
}

// A session that moves between event loops takes the timer of its pings with it.
func TestMoveTakesPings(t *testing.T) {
	t.Parallel()
	l := newLively()
	r := newRig(t, setup{loops: 2, script: &script{serve: l.serve}, backend: pinging(pongTimeout)})
	client := r.join()
	moves, stop := r.mover()
	defer stop()
	l.awaitPings(t, 6)
	client.ask("still here")
	l.deaf.Store(true)
	client.expectClose(frame.InternalError, "backend connection lost: no answer to a ping within 1s")
	if n := moves.Load(); n < 20 {
		t.Errorf("only %d moves", n)
	}
}
