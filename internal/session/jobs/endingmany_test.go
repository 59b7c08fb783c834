package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// orders returns how many orders to end sessions are not completed.
func (r *rig) orders() int {
	r.jobs.mu.Lock()
	defer r.jobs.mu.Unlock()
	return len(r.jobs.orders)
}

// An operator ends all sessions of a backend, and those of no other; clients that wait keep waiting.
func TestKillAll(t *testing.T) {
	for _, within := range []time.Duration{0, 20 * time.Millisecond} {
		r := newRig(t, setup{Profile: "echo", Cap: 4, Loops: 2, Queue: 9, Script: &wstest.Server{Serve: wstest.Echo}})
		var peers []*wstest.Peer
		for range 3 {
			peers = append(peers, r.Join())
		}
		if n := r.jobs.KillAll("another", "", 0); n != 0 {
			t.Errorf("another backend has %d sessions", n)
		}
		peers[0].Ask("x")
		if n := r.jobs.KillAll(r.Backend.Name(), "new model", within); n != 3 {
			t.Errorf("%d sessions are ended; want 3", n)
		}
		for _, p := range peers {
			p.ExpectClose(frame.ServiceRestart, "ended by an operator: new model")
			_ = p.Close()
		}
		wstest.Eventually(t, "the order is completed", func() bool { return r.orders() == 0 })
		p := r.Join()
		p.Ask("after it")
	}
}

// An order that is not completed ends no session before its turn, is replaced by another for the same backend, and is cancelled by Close,
// but not while the proxy drains.
func TestKillAllLater(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Cap: 4, Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join()
	order := &order{backend: "x", within: time.Hour, cancel: func() {}}
	order.ids = append(order.ids, r.idOf(p))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	order.run(ctx, r.jobs) // cancelled
	p.Ask("still here")
	name := r.Backend.Name()
	r.jobs.KillAll(name, "slowly", time.Hour)
	first := r.orders()
	r.jobs.KillAll(name, "at once", 0)
	p.ExpectClose(frame.ServiceRestart, "ended by an operator: at once")
	_ = p.Close()
	wstest.Eventually(t, "the orders have ended", func() bool { return r.orders() == 0 })
	if first != 1 {
		t.Errorf("%d orders while one was not completed", first)
	}
	next := r.Join()
	r.jobs.KillAll(name, "", time.Hour)
	r.Gate.StopAccepting()
	if r.orders() != 1 {
		t.Error("an operator cannot end the sessions that are left")
	}
	next.Ask("the session continues")
	r.Stop()
	wstest.Eventually(t, "the order is cancelled", func() bool { return r.orders() == 0 })
	next.Ask("the session still continues")
}

// A session that has left the backend when its turn comes continues.
func TestKillAllSparesOthers(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join()
	order := &order{ids: []record.ID{r.idOf(p)}, backend: "that it has left", cancel: func() {}}
	order.run(t.Context(), r.jobs)
	p.Ask("still here")
}

// Hundreds of sessions are ended one after the other while they send, move between loops, and end by themselves. Each client hears one
// end, its own or the proxy's; the proxy counts those that it has ended; and what the rig checks at its end holds.
func TestEndAllWithinWhileSessionsEnd(t *testing.T) {
	const clients, within = 300, 400 * time.Millisecond
	r := newRig(t, setup{Profile: "echo", Cap: clients, Loops: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(clients)
	var peers []*wstest.Peer
	for range clients {
		peers = append(peers, r.Join())
	}
	var told, first, last, deaf atomic.Int64 // deaf: left in the middle of a frame, so that a close frame may be lost
	var all sync.WaitGroup
	begun := time.Now()
	for i, p := range peers {
		all.Go(func() {
			defer p.Close()
			leaves, left := begun.Add(rand.N(2*within)), false
			if i%10 == 0 { // it stays for as long as it may
				leaves = begun.Add(time.Hour)
			}
			for n := 0; ; n++ {
				switch {
				case left:
				case time.Now().Before(leaves):
					_, _ = p.Conn.Write(p.Encode(true, frame.Text, fmt.Append(nil, n)))
				case i%3 == 0: // in the middle of a frame
					left = true
					_, _ = p.Conn.Write(p.Encode(true, frame.Binary, make([]byte, 100))[:50])
					_ = p.TCP().CloseWrite()
				default:
					left = true
					_, _ = p.Conn.Write(p.Encode(true, frame.Close, []byte("\x03\xe8")))
				}
				h, payload, err := p.Next()
				switch {
				case err != nil && (!left || i%3 != 0):
					t.Errorf("client %d: %v", i, err)
				case err != nil:
					deaf.Add(1)
				case err == nil && h.Opcode != frame.Close:
					continue
				case string(payload) == "\x03\xe9enough":
					since := int64(time.Since(begun))
					first.CompareAndSwap(0, since)
					last.Store(max(last.Load(), since))
					told.Add(1)
				case !left || string(payload) != "\x03\xe8" && i%3 != 0:
					t.Errorf("client %d: closed with %q", i, payload)
				}
				return
			}
		})
	}
	moves, stop := r.mover()
	r.jobs.EndAllWithin(frame.GoingAway, "enough", within)
	all.Wait()
	stop()
	wstest.Eventually(t, "all sessions are gone", func() bool { return r.sessions.Active() == 0 })
	select {
	case <-r.sessions.Emptied():
	case <-time.After(wstest.Timeout):
		t.Error("the end of the last session is not reported")
	}
	if got := r.sessions.Stopped(); got < told.Load() || got > told.Load()+deaf.Load() || got == 0 || got == clients {
		t.Errorf("the proxy says that it ended %d sessions, %d clients were told so", got, told.Load())
	}
	wstest.Eventually(t, "the order is completed", func() bool { return r.orders() == 0 })
	t.Logf("%d of %d clients were told, from %v to %v; %d moves", told.Load(), clients, time.Duration(first.Load()), time.Duration(last.Load()), moves.Load())
}

// A session that looks for another connection when the proxy begins to drain still gets one: it may finish by itself.
func TestDrainingLetsSessionsMove(t *testing.T) {
	for name, finishes := range map[string]bool{"it finds one": true, "it is told to leave": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "whisperlive", Queue: 1})
			client, server := r.Session()
			client.Send(frame.Text, `{"uid": "a"}`)
			server.Expect(frame.Text, `{"uid": "a"}`)
			server.Send(frame.Text, `{"status": "WAIT"}`)
			server.ExpectClose(frame.GoingAway, "session moved to another connection") // and is not closed by the test: the cap is used up
			wstest.Eventually(t, "the session waits", func() bool { return r.Group.Queue().Waiting == 1 })
			r.Gate.StopAccepting()
			if !finishes {
				r.jobs.EndAllWithin(frame.GoingAway, "enough", 0)
				client.ExpectClose(frame.GoingAway, "enough")
				_, _ = client.Close(), server.Close()
				return
			}
			_ = server.Close()
			next := r.Accepted()
			next.ExpectOwn(frame.Text, `{"uid": "a"}`)
			next.Send(frame.Text, `{"message": "SERVER_READY"}`)
			client.Expect(frame.Text, `{"message": "SERVER_READY"}`)
		})
	}
}
