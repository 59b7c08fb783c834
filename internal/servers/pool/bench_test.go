package pool

import (
	"fmt"
	"sync"
	"testing"
)

// Leasing and returning allocates nothing, however the backend is chosen.
func TestLeaseAllocatesNothing(t *testing.T) {
	for balance := LeastLoaded; balance <= Hash; balance++ {
		r := newRig(t, Options{Balance: balance, Queue: 1}, capped(2), capped(2), capped(2))
		for _, p := range r.pools {
			p.fill(2)
		}
		first, second := &Waiter[int]{Key: 1}, &Waiter[int]{Key: 2}
		if n := testing.AllocsPerRun(1000, func() {
			a, _, _ := r.Acquire(first)
			b, _, _ := r.Acquire(second)
			r.slots[a].Reset(first.Lease())
			r.slots[b].Return(second.Lease())
			r.slots[a].Return(first.Lease())
		}); n != 0 {
			t.Errorf("%v: %v allocations", balance, n)
		}
	}
}

// benchGroup is a group of backends with 32 connections each.
func benchGroup(b *testing.B, o Options, backends int) (*Group[int], []*Slot[int]) {
	g, slots := NewGroup[int](o), []*Slot[int]{}
	for i := range backends {
		p := g.Add(fmt.Sprint(i), capped(32), func() {})
		for range 32 {
			s, ok := p.ReserveTrial()
			if !ok {
				b.Fatal("no room")
			}
			s.Filled(len(slots))
			slots = append(slots, s)
		}
	}
	return g, slots
}

func leaseAndReturn(b *testing.B, g *Group[int], slots []*Slot[int], w *Waiter[int]) {
	n, ok, err := g.Acquire(w)
	if err != nil {
		b.Error(err)
		return
	}
	if !ok {
		n = <-w.Ready()
	}
	slots[n].Return(w.Lease())
}

// BenchmarkLease is a lease and its return, while no other session wants one.
func BenchmarkLease(b *testing.B) {
	for _, backends := range []int{1, 4} {
		for balance := LeastLoaded; balance <= Hash; balance++ {
			b.Run(fmt.Sprintf("%v/backends=%d", balance, backends), func(b *testing.B) {
				g, slots := benchGroup(b, Options{Balance: balance}, backends)
				w := &Waiter[int]{Key: HashKey("someone")}
				b.ReportAllocs()
				for b.Loop() {
					leaseAndReturn(b, g, slots, w)
				}
			})
		}
	}
}

// BenchmarkLeaseParallel is the same by 32 goroutines for each processor, alone and while the statistics are read without a
// pause.
func BenchmarkLeaseParallel(b *testing.B) {
	parallel := func(b *testing.B, g *Group[int], slots []*Slot[int]) {
		b.SetParallelism(32)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				leaseAndReturn(b, g, slots, &Waiter[int]{})
			}
		})
	}
	b.Run("alone", func(b *testing.B) {
		g, slots := benchGroup(b, Options{Queue: 1000}, 4)
		parallel(b, g, slots)
	})
	b.Run("statistics", func(b *testing.B) {
		g, slots := benchGroup(b, Options{Queue: 1000}, 4)
		quit := make(chan struct{})
		var reader sync.WaitGroup
		reads := 0
		reader.Go(func() {
			for ; ; reads++ {
				select {
				case <-quit:
					return
				default:
				}
				for _, p := range g.pools {
					p.Stats()
				}
				g.Queue()
			}
		})
		parallel(b, g, slots)
		close(quit)
		reader.Wait()
		b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
	})
}

// BenchmarkHandOver is a lease's end that hands the connection to the client that waits, and that client's queueing again.
func BenchmarkHandOver(b *testing.B) {
	g, slots := benchGroup(b, Options{Queue: 100}, 1)
	clients := make([]*Waiter[int], 100)
	last := &Waiter[int]{} // who holds connection n
	n := 0
	for range slots {
		last = &Waiter[int]{}
		var ok bool
		var err error
		if n, ok, err = g.Acquire(last); !ok {
			b.Fatal(err)
		}
	}
	queue := func(i int) {
		clients[i] = &Waiter[int]{}
		if _, ok, err := g.Acquire(clients[i]); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	for i := range clients {
		queue(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % len(clients) {
		slots[n].Return(last.Lease())
		last = clients[i]
		n = <-last.Ready()
		queue(i)
	}
}

// BenchmarkHandOverTenants is a hand-over among a number of tenants that wait, each with one client.
func BenchmarkHandOverTenants(b *testing.B) {
	for _, tenants := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			g, slots := benchGroup(b, Options{Queue: tenants}, 1)
			shares := make(map[string]float64)
			for i := range tenants {
				shares[fmt.Sprint("tenant-", i)] = float64(1 + i%4)
			}
			g.SetTenants(&TenantSettings{Shares: shares})
			for range slots {
				if _, ok, err := g.Acquire(&Waiter[int]{}); !ok {
					b.Fatal(err)
				}
			}
			waiting := make(map[string]*Waiter[int])
			queue := func(tenant string) {
				waiting[tenant] = &Waiter[int]{Tenant: tenant}
				if _, ok, err := g.Acquire(waiting[tenant]); ok || err != nil {
					b.Fatal(ok, err)
				}
			}
			for tenant := range shares {
				queue(tenant)
			}
			n, lease := 0, uint64(1)
			b.ReportAllocs()
			for b.Loop() {
				next, _ := g.queue.order.best()
				w := next.first
				slots[n].Return(lease)
				n, lease = <-w.Ready(), w.Lease()
				queue(w.Tenant)
			}
		})
	}
}
