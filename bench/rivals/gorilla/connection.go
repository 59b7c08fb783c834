package main

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	pingInterval = 20 * time.Second // give or take a fifth
	writeTimeout = 10 * time.Second // of control frames
)

// connection is a pooled connection to a backend. One goroutine reads from it as long as it lives, since pings are
// answered and a close is seen only while a goroutine reads; another pings it.
type connection struct {
	*websocket.Conn
	pool    *pool
	healthy atomic.Bool
	closed  chan struct{}
	once    sync.Once

	// session is where the reader sends the backend's messages; nil while the connection is available.
	session atomic.Pointer[session]
}

func newConnection(p *pool, conn *websocket.Conn) *connection {
	c := &connection{Conn: conn, pool: p, closed: make(chan struct{})}
	c.healthy.Store(true)
	go c.read()
	go c.watch()
	return c
}

// close ends the connection, once.
func (c *connection) close() {
	c.once.Do(func() {
		c.healthy.Store(false)
		close(c.closed)
		c.Conn.Close()
		c.pool.signal()
	})
}

// read relays the backend's messages to the session that has the connection. What comes between sessions is dropped.
func (c *connection) read() {
	for {
		kind, message, err := c.ReadMessage()
		if err != nil {
			c.close()
			if s := c.session.Load(); s != nil {
				s.backendEnded(err)
			}
			return
		}
		if s := c.session.Load(); s != nil && s.client.WriteMessage(kind, message) != nil {
			s.client.Close() // the session's own reader notices
		}
	}
}

// watch writes a ping from time to time.
func (c *connection) watch() {
	timer := time.NewTimer(rand.N(pingInterval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.closed:
			return
		}
		if c.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)) != nil {
			c.close()
			return
		}
		timer.Reset(pingInterval*4/5 + rand.N(pingInterval*2/5))
	}
}
