//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// naivePool is the pool that one writes first: a slice of connections with flags for in use and healthy, a number that says how many
// there are, and one mutex around everything, dialing and pinging included. It implements [connPool].
//
// It is short, every method is plainly atomic, and alone it is quick. Its faults follow from the design:
//
//   - The mutex is held across I/O. While one connection is dialed or pinged, nobody can lease, return or count, and a
//     server that does not answer stops all of that for as long as the time-out.
//   - A connection that misses a pong is taken out of service and replaced, but kept, since it may recover. When it does, there
//     is one more than the limit.
//   - The number is kept beside the slice, by whoever changes one of them. A dial that fails was counted and stays counted;
//     a connection that is discarded twice is subtracted twice. Places are lost, or given out twice.
//   - That a connection has died shows at the next round of pings, or to its next user.
type naivePool struct {
	settings settings // static
	stop     chan struct{}
	checking sync.WaitGroup

	mu      sync.Locker
	entries []*naiveEntry // guarded by mu
	size    int           // guarded by mu
	total   int           // guarded by mu; connections in service, and being dialed
}

// naiveEntry is a connection of the pool.
type naiveEntry struct {
	conn           *network.Conn
	inUse, healthy bool // guarded by the pool's mutex
}

// newNaivePool returns a pool that has begun to dial its connections.
func newNaivePool(s settings) *naivePool { return newLockedNaivePool(s, new(sync.Mutex)) }

// newLockedNaivePool is newNaivePool with a lock of the caller's. It is for tests on a fake clock, which stands still while a goroutine waits
// for a [sync.Mutex].
func newLockedNaivePool(s settings, mu sync.Locker) *naivePool {
	p := &naivePool{settings: s, stop: make(chan struct{}), mu: mu, size: s.size}
	p.checking.Go(p.checkAll)
	return p
}

// Lease implements [connPool]. It dials a connection if none is free and there may be another.
func (p *naivePool) Lease() (*network.Conn, bool) {
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

// Return implements [connPool].
func (p *naivePool) Return(c *network.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := c.Tag.(*naiveEntry)
	e.inUse = false
	if p.total > p.size {
		p.remove(e)
	}
}

// Discard implements [connPool].
func (p *naivePool) Discard(c *network.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(c.Tag.(*naiveEntry))
}

// Resize implements [connPool].
func (p *naivePool) Resize(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
}

// Stats implements [connPool].
func (p *naivePool) Stats() (s counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		switch {
		case e.inUse:
			s.leased++
		case e.healthy:
			s.idle++
		default:
			s.unwell++
		}
	}
	return s
}

// Close implements [connPool].
func (p *naivePool) Close() {
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
func (p *naivePool) dial() (*naiveEntry, error) {
	p.total++
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.dialTimeout)
	defer cancel()
	conn, err := p.settings.network.Dial(ctx)
	if err != nil {
		return nil, err
	}
	e := &naiveEntry{conn: conn, healthy: true}
	conn.Tag = e
	p.entries = append(p.entries, e)
	return e, nil
}

// remove closes a connection in service and takes it away. It is called with the mutex held.
func (p *naivePool) remove(e *naiveEntry) {
	e.conn.Close()
	p.entries = slices.DeleteFunc(p.entries, func(other *naiveEntry) bool { return other == e })
	p.total--
}

// checkAll fills the pool, and looks after it from time to time until the end.
func (p *naivePool) checkAll() {
	p.check()
	ticker := time.NewTicker(p.settings.checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.check()
		case <-p.stop:
			return
		}
	}
}

// check pings all connections that are not in use, and dials those that are missing. All of it is done under the mutex, so
// that nothing changes meanwhile.
func (p *naivePool) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Clone(p.entries) {
		if !e.inUse { // a session would take the pong for its own
			p.ping(e)
		}
	}
	for p.total < p.size {
		if _, err := p.dial(); err != nil {
			return
		}
	}
}

// ping sees whether a connection is well. It is called with the mutex held.
func (p *naivePool) ping(e *naiveEntry) {
	err := e.conn.Ping(p.settings.pingTimeout)
	switch {
	case errors.Is(err, network.ErrClosed):
		if !e.healthy { // it was taken out of the total before
			p.total++
		}
		p.remove(e)
	case err != nil && e.healthy:
		e.healthy = false
		p.total--
	case err == nil && !e.healthy:
		e.healthy = true
		p.total++
	}
}
