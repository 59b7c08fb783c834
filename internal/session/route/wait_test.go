package route

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// waiting is a client that waits for one of two servers, which the test plays.
type waiting struct {
	t       *testing.T
	group   *pool.Group[*backend.Conn]
	servers []*pool.Pool[*backend.Conn]
	left    chan struct{}
	until   time.Time
	conn    *backend.Conn // what it got
	err     error         // or why it got nothing
	done    bool
}

// inQueue runs f in a bubble while a client waits.
func inQueue(t *testing.T, f func(*waiting)) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{t: t, group: pool.NewGroup[*backend.Conn](pool.Options{Queue: 1}), left: make(chan struct{}), until: time.Now().Add(time.Minute)}
		for _, name := range []string{"a", "b"} {
			w.servers = append(w.servers, w.group.Add(name, pool.Settings{Cap: 1, Weight: 1}, func() {}))
		}
		s := &Service{Group: w.group}
		waiter := &pool.Waiter[*backend.Conn]{Variant: "own"}
		if _, ok, err := w.group.Acquire(waiter); ok || err != nil {
			t.Fatal(ok, err)
		}
		go func() {
			w.conn, w.err = s.Wait(t.Context(), waiter, w.until, w.left, nil, nil)
			w.done = true
		}()
		synctest.Wait()
		f(w)
		synctest.Wait()
		if !w.done || w.group.Queue().Waiting != 0 {
			t.Errorf("it still waits: %+v", w.group.Queue())
		}
	})
}

// isFull has one of the servers be full for the client. No session begins there for a moment then.
func (w *waiting) isFull(server int) {
	w.t.Helper()
	slot, ok := w.servers[server].Reserve()
	if !ok {
		w.t.Fatalf("server %d is not to be dialed", server)
	}
	w.servers[server].SetHeld(true)
	slot.Refused(fmt.Errorf("%w: 503", backend.ErrForClientOnly))
	synctest.Wait()
}

// release has both servers get sessions again.
func (w *waiting) release() {
	for _, p := range w.servers {
		p.SetHeld(false)
	}
}

// returns waits until the client is in the queue, and returns after how long it is there.
func (w *waiting) returns() time.Duration {
	begun := time.Now()
	for w.group.Queue().Waiting == 0 && time.Since(begun) < time.Hour {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(begun)
}

// A client for whom a server is full asks the other one at once. When both are full for it, it gives others its place while it pauses, each time for
// longer, and then it is back.
func TestFullForClient(t *testing.T) {
	inQueue(t, func(w *waiting) {
		for n := range 9 {
			w.release()
			w.isFull(0)
			if took := w.returns(); took > time.Millisecond {
				t.Errorf("it is back after %v, though another server may take it", took)
			}
			w.isFull(1)
			if w.group.Queue().Waiting != 0 {
				t.Error("it waits while it pauses")
			}
			most := min(lastPause, firstPause<<n)
			if took := w.returns(); took < most*3/4 || took > most+time.Millisecond {
				t.Errorf("it is back after %v; want at most %v", took, most)
			}
		}
		w.release()
		slot, ok := w.servers[1].Reserve()
		if !ok {
			t.Fatal("nothing is dialed for it")
		}
		conn := new(backend.Conn)
		slot.Filled(conn)
		synctest.Wait()
		if w.conn != conn || w.err != nil {
			t.Errorf("it got %p, %v", w.conn, w.err)
		}
	})
}

// A client that pauses can leave, and waits no longer than others.
func TestPauseEnds(t *testing.T) {
	pause := func(w *waiting) {
		w.isFull(0)
		w.returns()
		w.isFull(1)
	}
	inQueue(t, func(w *waiting) {
		pause(w)
		close(w.left)
		synctest.Wait()
		if !errors.Is(w.err, ErrLeft) {
			t.Errorf("%v", w.err)
		}
	})
	inQueue(t, func(w *waiting) {
		for range 9 {
			w.release()
			pause(w)
			w.returns()
		}
		w.release()
		pause(w)
		time.Sleep(time.Until(w.until))
		synctest.Wait()
		if refusal := (*handshake.Refusal)(nil); !errors.As(w.err, &refusal) || refusal.Reason != "no connection came free in time" {
			t.Errorf("%v", w.err)
		}
	})
}
