package main

import (
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"
)

// pool keeps connections to one backend: those that are available on a channel, those in use in a map. Its numbers are
// atomic, and nothing is held across I/O. All methods may be called from any goroutine.
type pool struct {
	dialer *websocket.Dialer
	url    string
	size   int

	available chan *connection
	inUse     sync.Map // from *connection to struct{}
	leased    atomic.Int64
	wanted    chan struct{} // of size one: many signals are one
}

// newPool returns a pool whose worker has begun to dial.
func newPool(dialer *websocket.Dialer, url string, size int) *pool {
	p := &pool{dialer: dialer, url: url, size: size, available: make(chan *connection, size), wanted: make(chan struct{}, 1)}
	go p.work()
	return p
}

// acquire returns a connection that no other session has, or nil when there is none now.
func (p *pool) acquire() *connection {
	for {
		select {
		case c := <-p.available:
			if !c.healthy.Load() {
				p.signal()
				continue
			}
			p.inUse.Store(c, struct{}{})
			p.leased.Add(1)
			return c
		default:
			p.signal()
			return nil
		}
	}
}

// release takes a connection back, if it is healthy.
func (p *pool) release(c *connection) {
	if _, ok := p.inUse.LoadAndDelete(c); !ok {
		return
	}
	p.leased.Add(-1)
	if !c.healthy.Load() || !p.offer(c) {
		c.close()
		p.signal()
	}
}

// offer makes a connection available, if there is room.
func (p *pool) offer(c *connection) bool {
	select {
	case p.available <- c:
		return true
	default:
		return false
	}
}

// total is how many connections there are.
func (p *pool) total() int { return len(p.available) + int(p.leased.Load()) }
