//go:build linux

package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// newHistogram returns a histogram of latencies in nanoseconds, exact to a hundredth.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 2) }

// paced leases and returns at a fixed rate, and returns how long a lease and its return took together, without the time
// in between, and how many connections were dead when they were leased or right after.
//
// Clients do not come later because the pool is slow. So what takes longer than the time to a goroutine's next lease counts
// for those as well that could not begin meanwhile (the correction of HdrHistogram for coordinated omission).
func paced(p connPool, goroutines int, o options) (*hdrhistogram.Histogram, int64) {
	period := time.Duration(float64(goroutines) / o.rate * float64(time.Second))
	end := time.Now().Add(o.duration)
	var dead atomic.Int64
	var mu sync.Mutex
	merged := newHistogram()
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			latency := newHistogram()
			for done := false; !done; { // once at least, however late this goroutine gets its turn
				time.Sleep(period/2 + rand.N(period))
				begun := time.Now()
				done = begun.After(end)
				c := lease(p)
				leased := time.Since(begun)
				runtime.Gosched()
				begun = time.Now()
				if !giveBack(p, c) {
					dead.Add(1)
				}
				took := leased + time.Since(begun)
				_ = latency.RecordCorrectedValue(min(int64(took), latency.HighestTrackableValue()), int64(period))
			}
			mu.Lock()
			defer mu.Unlock()
			merged.Merge(latency)
		})
	}
	running.Wait()
	return merged, dead.Load()
}
