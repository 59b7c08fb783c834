package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// echoServer is a backend. It counts the connections that it was dialed, and closes one that is told "go".
func echoServer(t *testing.T) (url string, dialed *atomic.Int32) {
	t.Helper()
	dialed = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		dialed.Add(1)
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || string(message) == "go" || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	return "ws" + strings.TrimPrefix(server.URL, "http"), dialed
}

// newProxy serves from one pool, once that is full.
func newProxy(t *testing.T, backend string, size int) (p *proxy, url string) {
	t.Helper()
	p = &proxy{pools: []*pool{newPool(websocket.DefaultDialer, backend, size)}}
	wstest.Eventually(t, "a full pool", func() bool { return len(p.pools[0].available) == size })
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.CloseClientConnections)
	return p, "ws" + strings.TrimPrefix(server.URL, "http")
}

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	backend, dialed := echoServer(t)
	p, url := newProxy(t, backend, 1)
	for _, text := range []string{"one", "two"} {
		c := dial(t, url)
		if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		kind, echo, err := c.ReadMessage()
		if err != nil || kind != websocket.TextMessage || string(echo) != text {
			t.Fatalf("%q came back as %q (%v)", text, echo, err)
		}
		c.Close()
		wstest.Eventually(t, "a connection that came back", func() bool { return len(p.pools[0].available) == 1 })
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections were dialed for two sessions, one after the other", n)
	}
}

func TestNoClientWaitsForAConnection(t *testing.T) {
	backend, _ := echoServer(t)
	_, url := newProxy(t, backend, 1)
	dial(t, url)
	if _, response, err := websocket.DefaultDialer.Dial(url, nil); err == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second client got %v (%v)", response, err)
	}
}

func TestALostConnectionIsReplaced(t *testing.T) {
	backend, dialed := echoServer(t)
	p, url := newProxy(t, backend, 1)
	c := dial(t, url)
	if err := c.WriteMessage(websocket.TextMessage, []byte("go")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseInternalServerErr) {
		t.Errorf("the client is told %v", err)
	}
	wstest.Eventually(t, "another connection", func() bool { return dialed.Load() == 2 && len(p.pools[0].available) == 1 })
}
