package loop

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// retired is a [Retirer] that echoes, and panics on demand.
type retired struct {
	script
	timer Timer
	gone  chan struct{}
}

func newRetired() *retired {
	r := &retired{gone: make(chan struct{})}
	r.received = func(c *Conn, b []byte) int {
		if string(b) == "panic" {
			panic("a handler panics")
		}
		c.Write(b)
		return len(b)
	}
	return r
}

func (r *retired) Retire(c *Conn)        { c.Close(); close(r.gone) }
func (r *retired) Expired(*Conn, *Timer) { panic("timer") }

// recovering starts one loop that recovers from panics. It sleeps until there is an event: no signal wakes it. values returns their values.
func recovering(t *testing.T) (l *Loop, values func() []any) {
	t.Helper()
	var mu sync.Mutex
	var all []any
	g, err := NewGroup(Options{Min: 1, Max: 1, Interval: time.Hour, Wait: WaitBlock, IOURing: IOURing(*ioURing), OnPanic: func(value any) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, value)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g.Pick(), func() []any { mu.Lock(); defer mu.Unlock(); return all }
}

// A panic ends the connection whose event was handled, and no other: events that were fetched in the same batch are handled, too.
func TestPanicEndsOneConnection(t *testing.T) {
	const others = 10
	for name, hurt := range map[string]func(*Conn, *retired, net.Conn){
		"in an event": func(_ *Conn, _ *retired, far net.Conn) { _, _ = far.Write([]byte("panic")) },
		"in a function that was posted": func(c *Conn, _ *retired, _ net.Conn) {
			c.Post(func() { panic("posted") })
		},
		"in a function for later": func(c *Conn, _ *retired, _ net.Conn) {
			c.Post(func() { c.later(func() { panic("later") }) })
		},
		"in a timer": func(c *Conn, r *retired, _ net.Conn) {
			c.Post(func() { r.timer.Set(c, 0, 0) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, values := recovering(t)
			near, far := wstest.Pair(t)
			victim := newRetired()
			c := add(t, l, near, victim, nil)
			var peers []*net.TCPConn
			var handlers []*retired
			for range others {
				near, far := wstest.Pair(t)
				h := newRetired()
				add(t, l, near, h, nil)
				peers, handlers = append(peers, far), append(handlers, h)
			}
			// All of it comes in one batch.
			ran := make(chan struct{})
			release := make(chan struct{})
			l.Post(func() { close(ran); <-release })
			<-ran
			hurt(c, victim, far)
			for _, peer := range peers {
				if _, err := peer.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
			}
			close(release)
			wstest.Receive(t, victim.gone, "the connection to be retired")
			if _, err := far.Read(make([]byte, 1)); err == nil {
				t.Error("the peer's connection is still open")
			}
			for i, peer := range peers {
				if _, err := io.ReadFull(peer, make([]byte, 5)); err != nil {
					t.Errorf("peer %d: %v", i, err)
				}
				select {
				case <-handlers[i].gone:
					t.Errorf("connection %d was retired, too", i)
				default:
				}
			}
			if got := values(); len(got) != 1 {
				t.Errorf("panics: %v", got)
			}
			var timed funcTimer
			fired := make(chan struct{})
			call(t, l, func() { timed.call(l, time.Millisecond, func() { close(fired) }) })
			wstest.Receive(t, fired, "a timer that was set after it")
			var left int
			call(t, l, func() { left = l.conns })
			if left != others {
				t.Errorf("%d connections are left", left)
			}
		})
	}
}

// Call returns when the function panics, and functions posted after it are called.
func TestPanicInPostedFunction(t *testing.T) {
	l, values := recovering(t)
	behind := make(chan struct{})
	release := hold(t, l)
	l.Post(func() { panic("first") })
	l.Post(func() { panic("second") })
	l.Post(func() { close(behind) })
	release()
	wstest.Receive(t, behind, "the function behind them")
	call(t, l, func() { panic("third") })
	call(t, l, func() {})
	if got := values(); len(got) != 3 {
		t.Errorf("panics: %v", got)
	}
}

// A function that was posted before a handler panics in the same batch is called without another event, and what it writes is sent.
func TestPanicBesidePostedFunction(t *testing.T) {
	l, _ := recovering(t)
	near, far := wstest.Pair(t)
	victim := newRetired()
	add(t, l, near, victim, nil)
	otherNear, otherFar := wstest.Pair(t)
	other := add(t, l, otherNear, newRetired(), nil)
	release := hold(t, l)
	if _, err := far.Write([]byte("panic")); err != nil {
		t.Fatal(err)
	}
	other.Post(func() { other.Write([]byte("hello")) })
	release()
	if _, err := io.ReadFull(otherFar, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	wstest.Receive(t, victim.gone, "the connection to be retired")
}

// If Retire panics, the connection is closed all the same.
func TestPanicWhileRetiring(t *testing.T) {
	l, values := recovering(t)
	near, far := wstest.Pair(t)
	h := newRetired()
	close(h.gone) // so that Retire, which closes it again, panics
	add(t, l, near, h, nil)
	if _, err := far.Write([]byte("panic")); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the peer's connection is still open")
	}
	call(t, l, func() {})
	if got := values(); len(got) != 2 {
		t.Errorf("panics: %v", got)
	}
}
