package pool

import "testing"

// Leasing and returning allocates nothing.
func TestLeaseAllocatesNothing(t *testing.T) {
	r := newRig(t, 2)
	r.fill(1, 2)
	first, second := r.slots[1], r.slots[2]
	if n := testing.AllocsPerRun(1000, func() {
		r.Lease()
		second.Return()
		r.Lease()
		second.Reset()
		r.Lease()
		first.Return()
		second.Return()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLeaseReturn(b *testing.B) {
	r := newRig(b, 32)
	for i := range 32 {
		r.fill(i)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n, _ := r.Lease()
			r.slots[n].Return()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if n, ok := r.Lease(); ok {
					r.slots[n].Return()
				}
			}
		})
	})
}
