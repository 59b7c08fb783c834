package diagnosis

import (
	"fmt"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// BenchmarkObserve looks at a proxy with 200 backends once, as each proxy does every second.
func BenchmarkObserve(b *testing.B) {
	f, meters := well(), meter.Snapshot{}
	one := f.Stats.Backends[0]
	for i := range 200 {
		one.Name = fmt.Sprint("gpu-", i+4)
		f.Stats.Backends = append(f.Stats.Backends, one)
	}
	histogram := &meter.NewBackend(1).FirstReply
	for i := range f.Stats.Backends {
		meters.Backends = append(meters.Backends, meter.BackendTotals{Service: "stt", Backend: f.Stats.Backends[i].Name})
	}
	var w Watch
	o := Observation{Now: noon, Stats: f.Stats, Meters: &meters}
	b.ReportAllocs()
	for b.Loop() {
		histogram.Observe(100 * time.Millisecond)
		for i := range meters.Backends {
			meters.Backends[i].FirstReply = histogram.Read()
		}
		o.Now, o.Elapsed = o.Now.Add(time.Second), o.Elapsed+time.Second
		w.Observe(&o)
	}
}
