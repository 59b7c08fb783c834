// Package naivepool renders the pool that one writes first: a slice of connections with flags for in use and healthy, a
// number that says how many there are, and one mutex around everything, dialing and pinging included. It is here to be
// compared with; nothing else uses it.
//
// What it does well: it is short, every method is plainly atomic, and alone it is quick. What it does not, by design:
//
//   - The mutex is held across I/O. While one connection is dialed or pinged, nobody can lease, return or count, and a
//     server that does not answer stops all of that for as long as the time-out.
//   - A connection that misses a pong is out of service and replaced, but kept, since it may recover. When it does, there
//     is one more than the limit.
//   - The number is kept beside the slice, by whoever changes one of them. A dial that fails has been counted and stays
//     so; a connection that is discarded twice is taken away twice. Places are lost, or given to too many.
//   - That a connection has died shows at the next round of pings, or to its next user.
package naivepool

import (
	"context"
	"slices"
	"sync"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
	"github.com/wsbouncer/wsbouncer/bench/pools/rival"
)

// Pool is the pool. It implements [rival.Pool].
type Pool struct {
	settings rival.Settings // static
	stop     chan struct{}
	checking sync.WaitGroup

	mu      sync.Locker
	entries []*entry // guarded by mu
	size    int      // guarded by mu
	total   int      // guarded by mu; connections in service, and being dialed
}

// entry is a connection of the pool.
type entry struct {
	conn           *network.Conn
	inUse, healthy bool // guarded by the pool's mutex
}

// New returns a pool that has begun to dial its connections.
func New(s rival.Settings) *Pool { return NewLocked(s, new(sync.Mutex)) }

// NewLocked is New with a lock of the caller's. It is for tests on a fake clock, which stands still while a goroutine waits
// for a [sync.Mutex].
func NewLocked(s rival.Settings, mu sync.Locker) *Pool {
	p := &Pool{settings: s, stop: make(chan struct{}), mu: mu, size: s.Size}
	p.checking.Go(p.checkAll)
	return p
}

// Lease implements [rival.Pool]. It dials a connection if none is free and there may be another.
func (p *Pool) Lease() (*network.Conn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.healthy && !e.inUse {
			e.inUse = true
			return e.conn, true
		}
	}
	if p.total >= p.size {
		return nil, false
	}
	e, err := p.dial()
	if err != nil {
		return nil, false
	}
	e.inUse = true
	return e.conn, true
}

// Return implements [rival.Pool].
func (p *Pool) Return(c *network.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := c.Tag.(*entry)
	e.inUse = false
	if p.total > p.size {
		p.remove(e)
	}
}

// Discard implements [rival.Pool].
func (p *Pool) Discard(c *network.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(c.Tag.(*entry))
}

// Resize implements [rival.Pool].
func (p *Pool) Resize(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
}

// Stats implements [rival.Pool].
func (p *Pool) Stats() (s rival.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		switch {
		case e.inUse:
			s.Leased++
		case e.healthy:
			s.Idle++
		default:
			s.Unwell++
		}
	}
	return s
}

// Close implements [rival.Pool].
func (p *Pool) Close() {
	close(p.stop)
	p.checking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		e.conn.Close()
	}
	p.entries, p.total, p.size = nil, 0, 0
}

// dial adds a connection. It is called with the mutex held, so that nobody else can dial the same one.
func (p *Pool) dial() (*entry, error) {
	p.total++
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.DialTimeout)
	defer cancel()
	conn, err := p.settings.Network.Dial(ctx)
	if err != nil {
		return nil, err
	}
	e := &entry{conn: conn, healthy: true}
	conn.Tag = e
	p.entries = append(p.entries, e)
	return e, nil
}

// remove closes a connection in service and takes it away. It is called with the mutex held.
func (p *Pool) remove(e *entry) {
	e.conn.Close()
	p.entries = slices.DeleteFunc(p.entries, func(other *entry) bool { return other == e })
	p.total--
}
