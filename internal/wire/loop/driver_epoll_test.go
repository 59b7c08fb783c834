//go:build linux && !portableloop

package loop

import (
	"net"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// portable tells which driver is under test.
const portable = false

// epoll must not report an event again and again because nothing acts on it: the loop would never wait.
func TestNothingKeepsAnIdleLoopAwake(t *testing.T) {
	tests := []struct {
		name string
		act  func(c *Conn, far *net.TCPConn)
	}{
		{"idle", func(*Conn, *net.TCPConn) {}},
		{"paused with bytes to read", func(c *Conn, far *net.TCPConn) {
			on(t, c, c.Pause)
			_, _ = far.Write([]byte("unread"))
		}},
		{"paused at the stream's end", func(c *Conn, far *net.TCPConn) {
			on(t, c, c.Pause)
			_ = far.CloseWrite()
		}},
		{"after the stream's end", func(_ *Conn, far *net.TCPConn) { _ = far.CloseWrite() }},
		{"paused, both streams ended", func(c *Conn, far *net.TCPConn) {
			on(t, c, func() { c.Pause(); c.CloseWrite() })
			_ = far.CloseWrite()
		}},
		{"both streams ended", func(c *Conn, far *net.TCPConn) {
			on(t, c, c.CloseWrite)
			_ = far.CloseWrite()
		}},
		{"reset", func(_ *Conn, far *net.TCPConn) {
			_ = far.SetLinger(0)
			_ = far.Close()
		}},
		{"paused and reset", func(c *Conn, far *net.TCPConn) {
			on(t, c, c.Pause)
			_ = far.SetLinger(0)
			_ = far.Close()
		}},
		{"output kept, then reset", func(c *Conn, far *net.TCPConn) {
			on(t, c, func() { c.Write(make([]byte, 16<<20)) })
			_ = far.SetLinger(0)
			_ = far.Close()
		}},
		{"output kept, end received, then reset", func(c *Conn, far *net.TCPConn) {
			on(t, c, func() { c.Write(make([]byte, 16<<20)) })
			_ = far.CloseWrite()
			settle(t, c.Loop())
			_ = far.SetLinger(0)
			_ = far.Close()
		}},
		{"output taken", func(c *Conn, far *net.TCPConn) {
			on(t, c, func() { c.Write(make([]byte, 16<<20)) })
			got := make([]byte, 1<<20)
			for n := 0; n < 16<<20; {
				m, err := far.Read(got)
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := group(t, 1).Pick()
			near, far := wstest.Pair(t)
			c := add(t, l, near, &script{}, nil)
			test.act(c, far)
			settle(t, l)
			call(t, l, func() {
				l.Post(func() {}) // so that there is something to wait for
				l.driver.wait()
				for _, event := range l.driver.events[:l.driver.ready] {
					if event.Fd == c.fd {
						t.Errorf("events %#x are still reported", event.Events)
					}
				}
				l.driver.ready = 0
			})
		})
	}
}
