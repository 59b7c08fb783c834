package backend

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// How a backend is closed.

// Close ends all idle connections in order, and waits for those that are still in another state.
func TestClose(t *testing.T) {
	t.Parallel()
	const connections = 6
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.Settings.Cap, o.Settings.Warm = connections, connections })
	r.ready(connections)
	var peers []*wstest.Peer
	for range connections {
		peers = append(peers, r.accepted())
	}
	busy := r.use()
	busy.ask("question")
	asked := make(chan *wstest.Peer, connections)
	var tasks sync.WaitGroup
	for _, p := range peers {
		tasks.Go(func() {
			h, payload, err := p.Next()
			if err == nil && h.Opcode == frame.Text {
				asked <- p
				h, payload, err = p.Next()
			}
			if err != nil || h.Opcode != frame.Close || string(payload) != "\x03\xe9" {
				t.Errorf("got %v %q, %v; want close 1001", h.Opcode, payload, err)
			}
			_, _ = p.Conn.Write(wstest.ServerFrame(true, frame.Close, "\x03\xe9"))
			_ = p.Close()
		})
	}
	server := <-asked
	busy.end(1) // is being reset
	closed := make(chan struct{})
	go func() { r.Close(wstest.Context(t)); close(closed) }()
	wstest.Eventually(t, "the others are closed", func() bool { s := r.Stats(); return s.Used() == 1 })
	select {
	case <-closed:
		t.Error("Close did not wait for the connection that is being reset")
	default:
	}
	server.Send(frame.Text, "answer") // makes it idle
	<-closed
	tasks.Wait()
	if s := r.Stats(); s.Used() != 0 || s.Totals.RetiredIdle != connections || s.Totals.Returned != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// Close at any moment of filling a pool leaves nothing.
func TestCloseWhileDialing(t *testing.T) {
	t.Parallel()
	for range 30 {
		r := newRig(t, "echo", func(o *Options, s *wstest.Server) { o.Settings.Cap, o.Settings.Warm, s.Serve = 8, 8, wstest.Echo })
		if n := rand.IntN(9); n > 0 {
			wstest.Eventually(t, "some are dialed", func() bool { return r.Stats().Idle >= n-1 })
		}
		r.Close(wstest.Context(t))
		if s := r.Stats(); s.Used() != 0 {
			t.Fatalf("left: %+v", s)
		}
		if attempts := r.server.Counts().Attempts; attempts > 8 {
			t.Fatalf("dialed %d", attempts)
		}
	}
}

// Close does not outlast its context: a lease that has not ended stays.
func TestCloseGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", nil)
	s := r.use()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Close(ctx)
	if st := r.Stats(); st.Leased != 1 {
		t.Errorf("stats: %+v", st)
	}
	s.end(0)
	wstest.Eventually(t, "it is idle", func() bool { return r.Stats().Idle == 1 })
}
