//go:build linux

package main

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// conn is a connection of wsbouncer's pool. It looks after its own health: its end is noticed at once, since it always has
// a reader, and from time to time it is pinged, whether it is leased or not, and the pong must come in time.
type conn struct {
	// Static.
	link     *network.Conn
	slot     *pool.Slot[*conn]
	interval time.Duration // between two pings, or up to a quarter less
	timeout  time.Duration // for the pong

	lease uint64 // its number; for the lease's holder

	lost atomic.Bool // it cannot serve anybody any more

	mu     sync.Mutex
	timer  *time.Timer // guarded by mu; the next look, or the time that the pong is due
	closed bool        // guarded by mu
}

// jittered returns a time between three quarters of d and d, so that what began together does not go on together.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/4+1) }

// set sets the one timer of the connection.
func (c *conn) set(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(d, f)
}

// look sends a ping.
func (c *conn) look() {
	c.set(c.timeout, func() { c.fail(pool.Silent) })
	_ = c.link.SendPing(func() { c.set(jittered(c.interval), c.look) }) // the reader sees the end
}

// fail notes that the connection cannot serve any more. One that is leased is retired by the lease's holder.
func (c *conn) fail(reason pool.Reason) {
	c.lost.Store(true)
	c.withdraw(reason)
}

// withdraw retires the connection if it is idle.
func (c *conn) withdraw(reason pool.Reason) {
	if c.slot.Withdraw(reason) {
		c.close()
	}
}

// retire ends the lease with the connection being closed.
func (c *conn) retire(reason pool.Reason) {
	c.slot.Discard(c.lease, reason)
	c.close()
}

// close closes the connection, whose slot is retiring, and gives the slot up.
func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.mu.Unlock()
	c.link.Close()
	c.slot.Gone()
}
