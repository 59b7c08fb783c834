//go:build linux

package main

import (
	"context"
	"sync"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// bouncer is the pool of wsbouncer as a [connPool]: the book is that of package pool; the worker and the connections
// do over the simulated network what those of package backend do over sockets.
type bouncer struct {
	settings settings // static
	group    *pool.Group[*conn]
	pool     *pool.Pool[*conn]
	worker   worker

	// waiters holds waiters that did not have to wait, and can be used again. In the proxy each client has its own.
	waiters sync.Pool
}

func newBouncer(s settings) *bouncer {
	b := &bouncer{settings: s, group: pool.NewGroup[*conn](pool.Options{})}
	b.waiters.New = func() any { return new(pool.Waiter[*conn]) }
	b.worker = worker{
		wanted: make(chan struct{}, 1), gone: make(chan struct{}, 1), results: make(chan result), done: make(chan struct{}),
		establish: b.establish, allowed: parallel,
	}
	b.worker.ctx, b.worker.cancel = context.WithCancel(context.Background())
	b.pool = b.group.Add("server", pool.Settings{Cap: s.size, Warm: s.size, Weight: 1}, b.worker.signal)
	b.worker.pool = b.pool
	go b.worker.run()
	return b
}

// Lease implements [connPool]. Nobody waits here, so that the group has no queue.
func (b *bouncer) Lease() (*network.Conn, bool) {
	w := b.waiters.Get().(*pool.Waiter[*conn])
	defer b.waiters.Put(w)
	for {
		c, ok, _ := b.group.Acquire(w)
		if !ok {
			return nil, false
		}
		c.lease = w.Lease()
		switch {
		case c.lost.Load(): // since it was leased: the next one
			c.retire(pool.Lost)
		default:
			return c.link, true
		}
	}
}

// Return implements [connPool].
func (b *bouncer) Return(link *network.Conn) {
	c := link.Tag.(*conn)
	if c.lost.Load() {
		c.retire(pool.Lost)
		return
	}
	c.slot.Return(c.lease)
	// An event loop does not let anything come between these two. Here it may have been lost in between, and not withdrawn
	// because it was still leased.
	if c.lost.Load() {
		c.withdraw(pool.Lost)
	}
}

// Discard implements [connPool].
func (b *bouncer) Discard(link *network.Conn) { link.Tag.(*conn).retire(pool.Unclean) }

// Resize implements [connPool].
func (b *bouncer) Resize(size int) { b.pool.Set(pool.Settings{Cap: size, Warm: size, Weight: 1}) }

// Stats implements [connPool].
func (b *bouncer) Stats() counts {
	s := b.pool.Stats()
	return counts{idle: s.Idle, leased: s.Leased + s.Resetting, unwell: s.Retiring}
}

// Close implements [connPool].
func (b *bouncer) Close() {
	b.worker.stop()
	b.group.Remove(b.pool)
	for {
		for c, ok := b.pool.RetireOldest(pool.Shutdown); ok; c, ok = b.pool.RetireOldest(pool.Shutdown) {
			c.close()
		}
		if stats := b.pool.Stats(); stats.Used() == 0 {
			return
		}
		<-b.worker.gone
	}
}

// establish dials a connection and fills the slot.
func (b *bouncer) establish(ctx context.Context, slot *pool.Slot[*conn]) error {
	ctx, cancel := context.WithTimeout(ctx, b.settings.dialTimeout)
	defer cancel()
	link, err := b.settings.network.Dial(ctx)
	if err != nil {
		return err
	}
	c := &conn{link: link, slot: slot, interval: b.settings.checkInterval, timeout: b.settings.pingTimeout}
	link.Tag = c
	c.set(jittered(c.interval), c.look)
	slot.Filled(c)
	link.OnEnd(func() { c.fail(pool.Lost) })
	return nil
}
