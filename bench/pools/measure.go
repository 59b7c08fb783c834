//go:build linux

package main

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// statsInterval is the time between two looks at a pool's statistics.
const statsInterval = 10 * time.Millisecond

// size returns the size of a pool for so many goroutines: none has to wait for another one's connection.
func size(goroutines int) int { return goroutines + goroutines/4 + 8 }

// outcome is what one pool did in one round.
type outcome struct {
	perSecond           float64 // leases, as fast as they went
	p50, p99, p999, max time.Duration
	dead                int64   // dead connections that were leased while latency was measured
	most                int     // connections that the server had open at once
	others              float64 // processors that other processes used; NaN where that is not known
}

// measure has goroutines lease and return connections of a new pool, first at a fixed rate, for the time it takes, and then
// as fast as they can, for how often it can be done. Meanwhile connections are pinged, some end and are replaced, and
// somebody looks at the statistics.
func measure(d design, goroutines int, o options) outcome {
	runtime.GC() // what the one before has left
	n := network.New(o.roundTrip)
	p := d.begin(settings{
		network: n, size: size(goroutines), checkInterval: o.check, pingTimeout: time.Second, dialTimeout: time.Second,
	})
	for n.Open() < size(goroutines) {
		time.Sleep(o.roundTrip)
	}
	// Where all connections are pinged together, that begins one interval from now. So with a duration of one interval it
	// happens once in each measurement, and early enough to be over before its end.
	time.Sleep(o.check / 2)
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { every(statsInterval, stop, func() { p.Stats() }) })
	background.Go(func() { every(o.breakage, stop, n.BreakOne) })

	before, err := child.ReadMachine()
	latency, dead := paced(p, goroutines, o)
	count, took := saturated(p, goroutines, o.duration)
	others := math.NaN()
	if after, failed := child.ReadMachine(); err == nil && failed == nil {
		others = after.Others(before)
	}

	close(stop)
	background.Wait()
	p.Close()
	at := func(q float64) time.Duration { return time.Duration(latency.ValueAtQuantile(q)) }
	return outcome{
		perSecond: float64(count) / took.Seconds(),
		p50:       at(50), p99: at(99), p999: at(99.9), max: time.Duration(latency.Max()),
		dead: dead, most: n.Most(), others: others,
	}
}

// every calls f from time to time until stop is closed.
func every(interval time.Duration, stop <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-stop:
			return
		}
	}
}

// saturated leases and returns as fast as it goes, and returns how often and in which time that was done.
func saturated(p connPool, goroutines int, duration time.Duration) (count int64, took time.Duration) {
	var stop atomic.Bool
	var total atomic.Int64
	var running sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		running.Go(func() {
			done := int64(0)
			for done == 0 || !stop.Load() {
				c := lease(p)
				runtime.Gosched() // so that all goroutines have their turn, with connections leased
				giveBack(p, c)
				done++
			}
			total.Add(done)
		})
	}
	time.Sleep(duration)
	stop.Store(true)
	running.Wait() // with those that were in the middle of it
	return total.Load(), time.Since(begun)
}

// lease leases a connection, and waits for it if it must.
func lease(p connPool) *network.Conn {
	for {
		if c, ok := p.Lease(); ok {
			return c
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// giveBack ends the lease, and tells whether the connection was fit to be returned.
func giveBack(p connPool, c *network.Conn) bool {
	if !c.Alive() {
		p.Discard(c)
		return false
	}
	p.Return(c)
	return true
}
