package load

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkCollect is what a second of a time series costs when 10,000 messages were received in it.
func BenchmarkCollect(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	c := newCollection(1)
	b.ReportAllocs()
	now := time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		full := c.take()
		full.Received = 10_000
		for range full.Received {
			full.Latency.Record(int64(random.ExpFloat64() * float64(5*time.Millisecond)))
		}
		b.StartTimer()
		c.put(0, full)
		now += time.Second
		c.close(now, time.Millisecond, Steady)
		c.points = c.points[:0]
	}
}
