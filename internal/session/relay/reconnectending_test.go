//go:build linux && !portableloop

package relay

import (
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A client ends its stream behind more than the proxy reads ahead of a server that takes nothing. If the server takes it late, all of it arrives, and
// the close frame. Otherwise the close frame ends the session, and without one the client may come back.
func TestEndsBehindWhatWaits(t *testing.T) {
	for name, c := range map[string]struct{ closes, late bool }{
		"closes": {closes: true}, "closes, and the server takes it late": {true, true}, "vanishes": {}, "vanishes, and the server takes it late": {late: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Service: func(s *route.Service) {
				if reconnects(s); !c.late {
					s.CloseTimeout = 20 * time.Millisecond
				}
			}})
			r.Ready(1)
			client, answer := r.comes()
			server := r.Accepted()
			message := wstest.ClientFrame(true, frame.Binary, make([]byte, 20<<10))
			_ = client.SetDeadline(time.Time{})
			sent := make(chan int, 1)
			go func() {
				n := 0
				for stopped := false; !stopped && n < 2000; n++ {
					client.SendBytes(message)
					r.each(func(s *Session) { stopped = s.client.Paused() })
				}
				for end := n + 10; n < end; n++ {
					client.SendBytes(message)
				}
				if c.closes {
					client.SendClose(frame.NormalClosure, "done")
				}
				_ = client.TCP().CloseWrite()
				sent <- n
			}()
			n := <-sent
			if c.closes && !c.late {
				wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 && r.sessions.Active() == 0 })
				return
			}
			if !c.closes && !c.late {
				r.parked(1)
			} else {
				wstest.Eventually(t, "the end of the client's stream is seen", func() (seen bool) {
					r.on(func(s *Session) { seen = s.client.Kept() > 0 })
					return seen
				})
			}
			take := func(from, to int) {
				for i := from; i < to; i++ {
					if h, payload, err := server.Next(); err != nil || h.Opcode != frame.Binary || len(payload) != 20<<10 {
						t.Fatalf("message %d of %d: %+v, %d bytes, %v", i, to, h, len(payload), err)
					}
				}
			}
			if c.closes {
				take(0, n)
				server.ExpectClose(frame.NormalClosure, "done")
				server.SendClose(frame.NormalClosure, "done")
				wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
				return
			}
			if c.late {
				take(0, n)
				r.parked(1)
			}
			client, answer = r.comes("Wsbouncer-Resume: " + answer.Get("Wsbouncer-Resume"))
			got, err := strconv.Atoi(answer.Get("Wsbouncer-Received"))
			if err != nil || got > n || c.late && got < n {
				t.Fatalf("the proxy has %d of %d messages, %v", got, n, err)
			}
			if !c.late {
				take(0, got)
				for range n - got {
					client.SendBytes(message)
				}
				take(got, n)
			}
			client.SendClose(frame.NormalClosure, "done")
			server.ExpectClose(frame.NormalClosure, "done")
		})
	}
}

// shortListener accepts connections whose descriptors cannot be duplicated.
type shortListener struct{ net.Listener }

func (l shortListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return shortConn{Conn: nc}, err
}

type shortConn struct{ net.Conn }

func (shortConn) SyscallConn() (syscall.RawConn, error) { return shortRaw{}, nil }

type shortRaw struct{ syscall.RawConn }

func (shortRaw) Control(func(uintptr)) error { return syscall.EMFILE }

// A client for which a descriptor is missing is told so, whether it is new or back. Its session still waits for it.
func TestBackWithoutDescriptor(t *testing.T) {
	r := newRig(t, setup{Service: reconnects, Cap: 2})
	r.Ready(1)
	client, answer := r.comes()
	client.Reset()
	r.parked(1)
	token := "Wsbouncer-Resume: " + answer.Get("Wsbouncer-Resume")
	listener, address := wstest.Listen(t), r.Address
	r.Gate.Serve(shortListener{listener})
	r.Address = listener.Addr().String()
	r.Ready(1)
	for _, fields := range [][]string{{token}, nil} {
		_, response := r.Request(wstest.UpgradeRequest("/v1/test", fields...))
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("%v: %s, %v", fields, response.Status, response.Header)
		}
	}
	r.Address = address
	r.comes(token)
}

// A session that has heard that its client's stream has ended behind what waits moves when its server is full, if the client may come back.
func TestMovesWhileClientMayComeBack(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive", Queue: 1, Service: reconnects})
	r.Ready(1)
	client, _ := r.comes()
	server := r.Accepted()
	client.Send(frame.Text, `{"uid": "a"}`)
	client.Send(frame.Binary, "audio")
	server.Expect(frame.Text, `{"uid": "a"}`)
	r.on((*Session).clientEnding)
	server.Send(frame.Text, `{"status": "WAIT"}`)
	r.is(moving)
	r.on((*Session).clientEnding)
	_ = server.Close()
	r.Accepted().ExpectOwn(frame.Text, `{"uid": "a"}`)
}
