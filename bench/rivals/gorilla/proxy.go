package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// proxy serves clients from the pools.
type proxy struct {
	pools []*pool
}

// upgrader accepts any origin, as the other proxies that are compared do.
var upgrader = websocket.Upgrader{
	ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, WriteBufferPool: writeBuffers,
	CheckOrigin: func(*http.Request) bool { return true },
}

// acquire takes a connection from the pool that has the fewest in use, or the next one.
func (p *proxy) acquire() *connection {
	byUse := slices.SortedFunc(slices.Values(p.pools), func(a, b *pool) int { return int(a.leased.Load() - b.leased.Load()) })
	for _, pool := range byUse {
		if c := pool.acquire(); c != nil {
			return c
		}
	}
	return nil
}

// session is a client with the connection it has.
type session struct {
	client *websocket.Conn
}

// serve holds a session on the goroutine that net/http has for the request: it relays the client's messages, while the
// connection's reader relays the backend's.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	c := p.acquire()
	if c == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no connection is free", http.StatusServiceUnavailable)
		return
	}
	defer c.pool.release(c)
	client, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the client has been told
	}
	defer client.Close()
	s := &session{client: client}
	c.session.Store(s)
	defer c.session.Store(nil)
	for {
		kind, message, err := client.ReadMessage()
		if err != nil {
			return // a close frame has been answered by gorilla
		}
		if err := c.WriteMessage(kind, message); err != nil {
			c.close()
			s.backendEnded(err)
			return
		}
	}
}

// backendEnded tells the client why, and ends its connection.
func (s *session) backendEnded(err error) {
	code := websocket.CloseInternalServerErr
	reason := ""
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseNoStatusReceived && closed.Code != websocket.CloseAbnormalClosure {
		code, reason = closed.Code, closed.Text
	}
	_ = s.client.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
	s.client.Close()
}

// ready answers 200 once all pools have all their connections.
func (p *proxy) ready(w http.ResponseWriter, _ *http.Request) {
	for _, pool := range p.pools {
		if total := pool.total(); total < pool.size {
			http.Error(w, fmt.Sprintf("%s has %d of %d connections", pool.url, total, pool.size), http.StatusServiceUnavailable)
			return
		}
	}
}
