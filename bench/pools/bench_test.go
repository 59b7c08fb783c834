//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// filled returns a full pool that nothing happens to while it is used.
func filled(t testing.TB, d design, size int) connPool {
	n := network.New(time.Microsecond)
	p := d.begin(settings{
		network: n, size: size, checkInterval: time.Hour, pingTimeout: time.Second, dialTimeout: time.Second,
	})
	t.Cleanup(p.Close)
	leased := make([]*network.Conn, size)
	for i := range leased {
		leased[i] = lease(p)
	}
	for _, c := range leased {
		p.Return(c)
	}
	return p
}

// BenchmarkLeaseReturn leases and returns a connection that nobody else wants.
func BenchmarkLeaseReturn(b *testing.B) {
	for _, d := range designs {
		b.Run(d.name, func(b *testing.B) {
			p := filled(b, d, 64)
			b.ReportAllocs()
			for b.Loop() {
				c, _ := p.Lease()
				p.Return(c)
			}
		})
	}
}

// BenchmarkLeaseReturnParallel does it in as many goroutines as there are processors.
func BenchmarkLeaseReturnParallel(b *testing.B) {
	for _, d := range designs {
		b.Run(d.name, func(b *testing.B) {
			p := filled(b, d, 64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if c, ok := p.Lease(); ok {
						p.Return(c)
					}
				}
			})
		})
	}
}

// Leasing and returning a connection of ours allocates nothing.
func TestLeaseAllocatesNothing(t *testing.T) {
	p := filled(t, designs[2], 8)
	if n := testing.AllocsPerRun(1000, func() {
		c, _ := p.Lease()
		p.Return(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
