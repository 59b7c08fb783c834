package loop

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// gatherer is a handler that pauses reading at its first bytes, which it leaves unconsumed, and gathers what follows.
type gatherer struct {
	script
	gathered func(c *Conn)
}

// Gathered implements [GatheringHandler].
func (h *gatherer) Gathered(c *Conn) { h.gathered(c) }

// What arrives while reading is paused is seen, up to the size of one read, and presented in order when reading is resumed: with TLS too.
func TestGather(t *testing.T) {
	defer func(was variant) { current = was }(current)
	for _, transport := range []string{"TCP", "TLS", "TLS by crypto/tls"} {
		t.Run(transport, func(t *testing.T) {
			current = variant{byCrypto: transport == "TLS by crypto/tls"}
			nearTCP, farTCP := wstest.Pair(t)
			var near, far net.Conn = nearTCP, farTCP
			if transport != "TCP" {
				server, client := configs(t, tls.VersionTLS13)
				near, far = shake(t, near, far, server, client)
			}
			var got []byte
			kept, ended := make(chan int, 1<<10), make(chan error, 1)
			paused := make(chan struct{})
			h := &gatherer{script: script{
				received: func(c *Conn, b []byte) int {
					if len(got) == 0 && string(b) == "begin" { // as an incomplete frame is left
						c.Pause()
						c.Gather()
						close(paused)
						return 0
					}
					got = append(got, b...)
					return len(b)
				},
				ended: func(_ *Conn, err error) { ended <- err },
			}, gathered: func(c *Conn) { kept <- len(c.Unread()) }}
			c := add(t, group(t, 1).Pick(), near, h, nil)
			_, _ = far.Write([]byte("begin"))
			wstest.Receive(t, paused, "the first bytes")
			_, _ = far.Write([]byte("ning"))
			if n := wstest.Receive(t, kept, "what follows"); n != len("beginning") {
				t.Errorf("%d bytes are kept", n)
			}
			rest := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // more than is gathered
			go func() {
				_, _ = far.Write(rest)
				_ = far.(interface{ CloseWrite() error }).CloseWrite()
			}()
			most := 0
			for most <= gatherSize {
				most = wstest.Receive(t, kept, "more")
			}
			settle(t, c.Loop())
			on(t, c, func() {
				if n := c.Kept(); n != most || n > readSize+(16<<10) {
					t.Errorf("%d bytes are kept, and %d were; one read has %d", n, most, readSize)
				}
				c.Resume()
			})
			if err := wstest.Receive(t, ended, "the end"); err != io.EOF {
				t.Errorf("ended with %v", err)
			}
			on(t, c, func() {
				if want := append([]byte("beginning"), rest...); !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, want %d", len(got), len(want))
				}
				c.Close()
			})
		})
	}
}

// What was kept is received before the end if reading was resumed before that came, in the same event as well, and never after it.
func TestKeptAndEnd(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(c *Conn)
		want string
	}{
		"resumed, ended": {func(c *Conn) { c.Resume(); c.End(io.EOF) }, "kept"},
		"ended, resumed": {func(c *Conn) { c.End(io.EOF); c.Resume() }, ""},
		"ended later": {func(c *Conn) {
			c.later(func() { c.End(io.EOF) })
			c.Resume()
		}, "kept"},
	} {
		t.Run(name, func(t *testing.T) {
			l := group(t, 1).Pick()
			h := collect()
			call(t, l, func() {
				c := l.Link(new(idleLink), h)
				c.Pause()
				c.Deliver([]byte("kept"))
				test.do(c)
			})
			wstest.Receive(t, h.done, "the end")
			settle(t, l)
			call(t, l, func() {
				if string(h.bytes) != test.want || len(h.errs) != 1 {
					t.Errorf("received %q, ended with %v", h.bytes, h.errs)
				}
			})
		})
	}
}

// idleLink is a link that does nothing.
type idleLink struct{}

func (*idleLink) Write([]byte)   {}
func (*idleLink) Pending() int   { return 0 }
func (*idleLink) Waits() bool    { return false }
func (*idleLink) Interest()      {}
func (*idleLink) CloseWrite()    {}
func (*idleLink) Close()         {}
func (*idleLink) Carrier() *Conn { return nil }
func (*idleLink) Leaving()       {}
func (*idleLink) Joined()        {}
