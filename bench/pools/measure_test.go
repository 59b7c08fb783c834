//go:build linux

package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// A measurement of each design says something of all that the table has, and ours keeps to its size.
func TestMeasure(t *testing.T) {
	o := options{
		duration: 200 * time.Millisecond, rounds: 1, rate: 10000,
		roundTrip: 100 * time.Microsecond, check: 10 * time.Millisecond, breakage: time.Millisecond,
	}
	all := make(outcomes)
	for _, n := range []int{1, 8} {
		o.goroutines = append(o.goroutines, n)
		for _, d := range designs {
			got := measure(d, n, o)
			if got.perSecond <= 0 || got.max <= 0 || got.p99 < got.p50 || got.max < got.p999 || got.most < size(n) {
				t.Errorf("%d goroutines, %s: %+v", n, d.name, got)
			}
			if d.name == ours && got.most > size(n) {
				t.Errorf("ours had %d connections open, of %d", got.most, size(n))
			}
			all[series{n, d.name}] = append(all[series{n, d.name}], got)
		}
	}
	var table strings.Builder
	all.print(&table, o)
	if rows := strings.Count(table.String(), "\n"); rows != 3+2+6 {
		t.Errorf("%d lines:\n%s", rows, table.String())
	}
}

// Leases that could not begin, because the one before took so long, count with the time that they would have waited.
func TestPacedCountsWhatCouldNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(50 * time.Millisecond) // all ten are pinged in half a second
		p := newLockedNaivePool(settings{
			network: n, size: 10, checkInterval: 2 * time.Second, pingTimeout: time.Second, dialTimeout: time.Second,
		}, make(chanLock, 1))
		defer p.Close()
		time.Sleep(time.Second)
		latency, dead := paced(p, 1, options{rate: 100, duration: 2 * time.Second})
		// A quarter of the leases fell due during the pings, so that half of those waited longer than half of that.
		median := time.Duration(latency.ValueAtQuantile(87.5)).Round(100 * time.Millisecond)
		if longest := time.Duration(latency.Max()).Round(100 * time.Millisecond); longest != 500*time.Millisecond || median != 200*time.Millisecond && median != 300*time.Millisecond {
			t.Errorf("the longest took %v, half of those in the way of the pings over %v", longest, median)
		}
		if p50 := latency.ValueAtQuantile(50); p50 > 1 || dead != 0 {
			t.Errorf("the median is %d ns, %d dead; want 0", p50, dead)
		}
	})
}

// The command's numbers are written as one reads them.
func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00 us", 123: "0.12 us", 12345: "12 us", 1234567: "1.23 ms", 123 * time.Millisecond: "123 ms",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%d) is %q; want %q", int64(d), got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) is %q; want %q", n, got, want)
		}
	}
}
