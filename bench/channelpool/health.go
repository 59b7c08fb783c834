package channelpool

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// entry is a connection of the pool.
type entry struct {
	conn    *network.Conn
	healthy atomic.Bool
	dropped chan struct{}
}

// adopt makes an entry for a connection, with a goroutine that looks after it until it is dropped.
func (p *Pool) adopt(conn *network.Conn) *entry {
	e := &entry{conn: conn, dropped: make(chan struct{})}
	e.healthy.Store(true)
	p.running.Go(func() { p.watch(e) })
	return e
}

// drop closes a connection that nobody else has.
func (p *Pool) drop(e *entry) {
	close(e.dropped)
	e.conn.Close()
	p.signal()
}

// watch writes a ping from time to time, whether the connection is leased or not. One that cannot be written is the end:
// the connection is dropped by whoever comes across it next.
func (p *Pool) watch(e *entry) {
	// A random part of the first interval, so that connections which were dialed together are not pinged together.
	timer := time.NewTimer(rand.N(p.settings.CheckInterval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-e.dropped:
			return
		case <-p.ctx.Done():
			return
		}
		if e.conn.SendPing(nil) != nil {
			e.healthy.Store(false)
			p.signal()
			return
		}
		timer.Reset(p.settings.CheckInterval)
	}
}
