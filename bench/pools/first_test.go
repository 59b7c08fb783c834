//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// How the first design fails.

// A connection misses one pong, and answers the next.
func driftsPastSize(r *rig) error {
	c := r.silenceOne()
	time.Sleep(checkInterval + pingTimeout)
	c.Silence(false)
	time.Sleep(2 * checkInterval)
	if n := r.network.Most(); n > r.size {
		return fmt.Errorf("the server had %d connections open, of %d", n, r.size)
	}
	return nil
}

// Two leases are ended twice each: one is returned, the other discarded. A pool may take no notice, or panic.
func endsTwice(r *rig) error {
	returned, _ := r.pool.Lease()
	discarded, _ := r.pool.Lease()
	r.pool.Return(returned)
	attempt(func() { r.pool.Return(returned) })
	r.pool.Discard(discarded)
	attempt(func() { r.pool.Discard(discarded) })
	time.Sleep(2 * checkInterval)

	all := r.leaseAll()
	defer r.endAll(all)
	seen := make(map[*network.Conn]bool)
	for _, c := range all {
		if seen[c] {
			return fmt.Errorf("a connection has two leases")
		}
		seen[c] = true
	}
	if n := r.network.Open(); n != r.size {
		return fmt.Errorf("the server has %d connections open, of %d", n, r.size)
	}
	if len(all) != r.size {
		return fmt.Errorf("%d connections can be leased, of %d", len(all), r.size)
	}
	return nil
}

// attempt calls f, which may panic.
func attempt(f func()) {
	defer func() { _ = recover() }()
	f()
}

// One connection does not answer a ping, while others are leased and statistics are read.
func starves(r *rig) error {
	r.silenceOne()
	var slowest time.Duration
	for end := time.Now().Add(2 * checkInterval); time.Now().Before(end); time.Sleep(time.Millisecond) {
		begun := time.Now()
		if c, ok := r.pool.Lease(); ok {
			r.pool.Return(c)
		}
		r.pool.Stats()
		slowest = max(slowest, time.Since(begun))
	}
	if slowest > 0 {
		return fmt.Errorf("a lease took %v", slowest)
	}
	return nil
}

// The server ends all connections, refuses new ones for a while, and accepts them again.
func leaksPlaces(r *rig) error {
	r.network.Refuse(true)
	r.network.Break()
	for range 30 {
		r.endAll(r.leaseAll())
		time.Sleep(time.Second)
	}
	r.network.Refuse(false)
	time.Sleep(time.Minute)

	all := r.leaseAll()
	defer r.endAll(all)
	if len(all) != r.size {
		return fmt.Errorf("%d connections can be leased, of %d", len(all), r.size)
	}
	return nil
}
