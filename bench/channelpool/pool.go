// Package channelpool renders the pool that one writes when the first has broken under load: a channel of available
// connections, a concurrent map of those in use, atomic numbers, a goroutine per connection that looks after its health,
// and one reconciling worker, fed by a channel on which many signals are one, with a jittered tick. It is here to be
// compared with; nothing else uses it.
//
// Nothing in it is held across I/O, and nobody waits for anybody. What is left open, by design:
//
//   - A ping is written, and the pong is never awaited: a server that hangs with its connections open is not noticed.
//   - Lease takes what the channel has. A connection that has died since its last ping is leased like any other.
//   - Offer lets a connection in as long as there is room among the available ones. It does not count those that are
//     leased, so that there can be more than the size in all. (That the number of leased connections is counted after one
//     was taken off the channel opens another gap: for a moment it is in neither number, and the worker dials for it.)
//   - Statistics walk the map while it changes, so that they may count a connection twice, or not at all.
package channelpool

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
	"github.com/wsbouncer/wsbouncer/bench/pools/rival"
)

// Pool is the pool. It implements [rival.Pool].
type Pool struct {
	settings rival.Settings // static
	size     atomic.Int64

	available chan *entry
	inUse     sync.Map // from *network.Conn to *entry
	leased    atomic.Int64

	wanted  chan struct{} // of size one
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a pool that has begun to dial its connections.
func New(s rival.Settings) *Pool {
	p := &Pool{settings: s, available: make(chan *entry, s.Size), wanted: make(chan struct{}, 1)}
	p.size.Store(int64(s.Size))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.work)
	return p
}

// Lease implements [rival.Pool].
func (p *Pool) Lease() (*network.Conn, bool) {
	for {
		select {
		case e := <-p.available:
			if !e.healthy.Load() {
				p.drop(e)
				continue
			}
			p.inUse.Store(e.conn, e)
			p.leased.Add(1)
			return e.conn, true
		default:
			p.signal()
			return nil, false
		}
	}
}

// Return implements [rival.Pool].
func (p *Pool) Return(c *network.Conn) {
	if e, ok := p.release(c); ok && (!e.healthy.Load() || !p.Offer(e)) {
		p.drop(e)
	}
}

// Discard implements [rival.Pool].
func (p *Pool) Discard(c *network.Conn) {
	if e, ok := p.release(c); ok {
		p.drop(e)
	}
}

// release takes a connection out of those in use. It returns false when it is not one of them.
func (p *Pool) release(c *network.Conn) (*entry, bool) {
	e, ok := p.inUse.LoadAndDelete(c)
	if !ok {
		return nil, false
	}
	p.leased.Add(-1)
	return e.(*entry), true
}

// Offer makes a connection available, if there is room.
func (p *Pool) Offer(e *entry) bool {
	if len(p.available) >= int(p.size.Load()) {
		return false
	}
	select {
	case p.available <- e:
		return true
	default:
		return false
	}
}

// Resize implements [rival.Pool].
func (p *Pool) Resize(size int) {
	p.size.Store(int64(size))
	p.signal()
}

// Stats implements [rival.Pool].
func (p *Pool) Stats() (s rival.Stats) {
	p.inUse.Range(func(c, _ any) bool {
		s.Leased++
		if !c.(*network.Conn).Alive() {
			s.Unwell++
		}
		return true
	})
	s.Idle = len(p.available)
	return s
}

// Close implements [rival.Pool].
func (p *Pool) Close() {
	p.cancel()
	p.running.Wait()
	for {
		select {
		case e := <-p.available:
			e.conn.Close()
		default:
			return
		}
	}
}
