package session

import (
	"context"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// orders returns how many orders to end sessions are not completed.
func (r *rig) orders() int {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return len(r.server.orders)
}

// An operator ends all sessions of a backend, and those of no other; who waits goes on to wait.
func TestKillAll(t *testing.T) {
	for _, within := range []time.Duration{0, 20 * time.Millisecond} {
		r := newRig(t, setup{profile: "echo", cap: 4, loops: 2, queue: 9, script: &wstest.Server{Serve: wstest.Echo}})
		var peers []*wstest.Peer
		for range 3 {
			peers = append(peers, r.join())
		}
		if n := r.server.KillAll("another", "", 0); n != 0 {
			t.Errorf("another backend has %d sessions", n)
		}
		peers[0].Ask("x")
		if n := r.server.KillAll(r.backend.Name(), "new model", within); n != 3 {
			t.Errorf("%d sessions are ended; want 3", n)
		}
		for _, p := range peers {
			p.ExpectClose(frame.ServiceRestart, "ended by an operator: new model")
			_ = p.Close()
		}
		wstest.Eventually(t, "the order is completed", func() bool { return r.orders() == 0 })
		p := r.join()
		p.Ask("after it")
	}
}

// An order that is not completed ends no session before its turn, is replaced by another for the same backend, and is cancelled by Close,
// but not while the proxy drains.
func TestKillAllLater(t *testing.T) {
	r := newRig(t, setup{profile: "echo", cap: 4, script: &wstest.Server{Serve: wstest.Echo}})
	p := r.join()
	order := &order{backend: "x", within: time.Hour, cancel: func() {}}
	order.ids = append(order.ids, r.described(p).ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	order.run(ctx, r.server) // cancelled
	p.Ask("still here")
	name := r.backend.Name()
	r.server.KillAll(name, "slowly", time.Hour)
	first := r.orders()
	r.server.KillAll(name, "at once", 0)
	p.ExpectClose(frame.ServiceRestart, "ended by an operator: at once")
	_ = p.Close()
	wstest.Eventually(t, "the orders have ended", func() bool { return r.orders() == 0 })
	if first != 1 {
		t.Errorf("%d orders while one was not completed", first)
	}
	next := r.join()
	r.server.KillAll(name, "", time.Hour)
	r.server.StopAccepting()
	if r.orders() != 1 {
		t.Error("an operator cannot end the sessions that are left")
	}
	next.Ask("the session goes on")
	r.server.Close()
	wstest.Eventually(t, "the order is cancelled", func() bool { return r.orders() == 0 })
	next.Ask("the session still goes on")
}

// A session that has left the backend when its turn comes goes on.
func TestKillAllSparesOthers(t *testing.T) {
	r := newRig(t, setup{profile: "echo", script: &wstest.Server{Serve: wstest.Echo}})
	p := r.join()
	order := &order{ids: []ID{r.described(p).ID}, backend: "that it has left", cancel: func() {}}
	order.run(t.Context(), r.server)
	p.Ask("still here")
}
