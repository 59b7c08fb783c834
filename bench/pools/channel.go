//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// channelPool is the pool that one writes when the first has broken under load: a channel of available connections, a concurrent map
// of those in use, atomic numbers, a goroutine per connection that checks its health, and one reconciling worker, fed by a
// channel on which many signals are one, with a jittered tick. It implements [connPool].
//
// Nothing in it is held across I/O, and nobody waits for anybody. Its faults follow from the design:
//
//   - A ping is written, and the pong is never awaited: a server that hangs with its connections open is not noticed.
//   - Lease takes what the channel has. A connection that has died since its last ping is leased like any other.
//   - offer accepts a connection as long as there is room among the available ones. It does not count those that are leased, so
//     that there can be more than the size in all. (Also, a connection is counted as leased only after it was taken off the
//     channel: for a moment it is in neither number, and the worker dials another.)
//   - Statistics walk the map while it changes, so that they may count a connection twice, or not at all.
type channelPool struct {
	settings settings // static
	size     atomic.Int64

	available chan *channelEntry
	inUse     sync.Map // from *network.Conn to *channelEntry
	leased    atomic.Int64

	wanted  chan struct{} // of size one
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newChannelPool returns a pool that has begun to dial its connections.
func newChannelPool(s settings) *channelPool {
	p := &channelPool{settings: s, available: make(chan *channelEntry, s.size), wanted: make(chan struct{}, 1)}
	p.size.Store(int64(s.size))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.work)
	return p
}

// Lease implements [connPool].
func (p *channelPool) Lease() (*network.Conn, bool) {
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

// Return implements [connPool].
func (p *channelPool) Return(c *network.Conn) {
	if e, ok := p.release(c); ok && (!e.healthy.Load() || !p.offer(e)) {
		p.drop(e)
	}
}

// Discard implements [connPool].
func (p *channelPool) Discard(c *network.Conn) {
	if e, ok := p.release(c); ok {
		p.drop(e)
	}
}

// release takes a connection out of those in use. It returns false when it is not one of them.
func (p *channelPool) release(c *network.Conn) (*channelEntry, bool) {
	e, ok := p.inUse.LoadAndDelete(c)
	if !ok {
		return nil, false
	}
	p.leased.Add(-1)
	return e.(*channelEntry), true
}

// offer makes a connection available, if there is room.
func (p *channelPool) offer(e *channelEntry) bool {
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

// Resize implements [connPool].
func (p *channelPool) Resize(size int) {
	p.size.Store(int64(size))
	p.signal()
}

// Stats implements [connPool].
func (p *channelPool) Stats() (s counts) {
	p.inUse.Range(func(c, _ any) bool {
		s.leased++
		if !c.(*network.Conn).Alive() {
			s.unwell++
		}
		return true
	})
	s.idle = len(p.available)
	return s
}

// Close implements [connPool].
func (p *channelPool) Close() {
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

// signal asks the worker to look at the pool. It never blocks.
func (p *channelPool) signal() {
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

// work brings the pool to its size until the end. It is one goroutine, which alone dials.
func (p *channelPool) work() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for p.ctx.Err() == nil {
		p.reconcile()
		timer.Reset(tick*4/5 + rand.N(tick*2/5))
		select {
		case <-p.wanted:
		case <-timer.C:
		case <-p.ctx.Done():
		}
	}
}

// reconcile drops what is dead or too much among the available connections, and dials what is missing.
func (p *channelPool) reconcile() {
	surplus := p.total() - int(p.size.Load())
	for range len(p.available) {
		select {
		case e := <-p.available:
			if !e.healthy.Load() || surplus > 0 || !p.offer(e) {
				p.drop(e)
				surplus--
			}
		default: // all are leased meanwhile
		}
	}
	for missing := int(p.size.Load()) - p.total(); missing > 0; missing -= parallel {
		if !p.dial(min(missing, parallel)) {
			return
		}
	}
}

// total returns how many connections there are, give or take those that are on their way from one place to the other.
func (p *channelPool) total() int { return len(p.available) + int(p.leased.Load()) }

// dial dials so many connections at once, and returns false when one of them failed.
func (p *channelPool) dial(count int) bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.settings.dialTimeout)
	defer cancel()
	var dialing sync.WaitGroup
	failed := make(chan error, count)
	for range count {
		dialing.Go(func() {
			conn, err := p.settings.network.Dial(ctx)
			if err != nil {
				failed <- err
				return
			}
			if e := p.adopt(conn); !p.offer(e) {
				p.drop(e)
			}
		})
	}
	dialing.Wait()
	return len(failed) == 0
}

// channelEntry is a connection of the pool.
type channelEntry struct {
	conn    *network.Conn
	healthy atomic.Bool
	dropped chan struct{}
}

// adopt makes an entry for a connection, with a goroutine that looks after it until it is dropped.
func (p *channelPool) adopt(conn *network.Conn) *channelEntry {
	e := &channelEntry{conn: conn, dropped: make(chan struct{})}
	e.healthy.Store(true)
	p.running.Go(func() { p.watch(e) })
	return e
}

// drop closes a connection that nobody else has.
func (p *channelPool) drop(e *channelEntry) {
	close(e.dropped)
	e.conn.Close()
	p.signal()
}

// watch writes a ping from time to time, whether the connection is leased or not. One that cannot be written is the end:
// the connection is dropped by whoever comes across it next.
func (p *channelPool) watch(e *channelEntry) {
	// A random part of the first interval, so that connections which were dialed together are not pinged together.
	timer := time.NewTimer(rand.N(p.settings.checkInterval))
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
		timer.Reset(p.settings.checkInterval)
	}
}
