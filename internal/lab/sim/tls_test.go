package sim

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// dialTLS connects other people's client to a server with TLS.
func dialTLS(t *testing.T, s *Server, config *tls.Config) *websocket.Conn {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	c, _, err := websocket.Dial(wstest.Context(t), s.URL(), &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(-1)
	return c
}

func TestEchoOverTLS(t *testing.T) {
	forEachEcho(t, func(t *testing.T, o Options) {
		var client *tls.Config
		o.TLS, client = securetest.NewAuthority(t).Loopback()
		s := start(t, o)
		if !strings.HasPrefix(s.URL(), "wss://127.0.0.1:") {
			t.Errorf("URL %s", s.URL())
		}
		c := dialTLS(t, s, client)
		for _, n := range []int{0, 1, 1 << 10, 64 << 10, 1 << 20} {
			want := wstest.Noise(byte(n), n)
			sent := make(chan error, 1)
			go func() { sent <- c.Write(wstest.Context(t), websocket.MessageBinary, want) }()
			if kind, got := hear(t, c); kind != websocket.MessageBinary || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came back as %d bytes of %v", n, len(got), kind)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
		s.CloseSessions(frame.GoingAway, "enough")
		if _, _, err := c.Read(wstest.Context(t)); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("ended with %v", err)
		}
	})
}

// A client that does not speak TLS, or says nothing, is not served, and holds nothing up.
func TestNoTLS(t *testing.T) {
	config, _ := securetest.NewAuthority(t).Loopback()
	s := start(t, Options{TLS: config})
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(wstest.Deadline())
	_, _ = nc.Write([]byte(wstest.UpgradeRequest("/")))
	answer := make([]byte, 1<<10)
	if n, _ := nc.Read(answer); bytes.Contains(answer[:n], []byte("101")) {
		t.Errorf("%q", answer[:n])
	}
	silent, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s.Close()
	if n := s.Stats().Accepted; n != 0 {
		t.Errorf("%d connections were accepted", n)
	}
}
