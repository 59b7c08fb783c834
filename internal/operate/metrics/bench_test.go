package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// BenchmarkScrape answers a scrape of a proxy with 100 backends. Reading the statistics and counters, which loops have a part in,
// comes on top: BenchmarkSnapshot in internal/ground/meter.
func BenchmarkScrape(b *testing.B) {
	s := crowd(100)
	registry := prometheus.NewRegistry()
	registry.MustRegister(New(func() Snapshot { return s }))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
	request := httptest.NewRequest("GET", "/metrics", nil)
	b.ReportAllocs()
	answer := &discarded{header: make(http.Header)}
	for b.Loop() {
		answer.size = 0
		handler.ServeHTTP(answer, request)
	}
	b.ReportMetric(float64(answer.size), "bytes/scrape")
}

// discarded is an answer that is not read.
type discarded struct {
	header http.Header
	size   int
}

func (d *discarded) Header() http.Header { return d.header }
func (d *discarded) WriteHeader(int)     {}
func (d *discarded) Write(b []byte) (int, error) {
	d.size += len(b)
	return len(b), nil
}

// crowd returns a snapshot of a proxy with this many backends, which have served many sessions.
func crowd(backends int) Snapshot {
	one := busy()
	s := Snapshot{Stats: one.Stats}
	s.Backends = nil
	r := meter.NewRegistry(1)
	for i := range backends {
		backend := one.Backends[0]
		backend.Name = fmt.Sprintf("gpu-%d", i)
		s.Backends = append(s.Backends, backend)
		m := r.Backend(backend.Service, backend.Name)
		for n := range 90 {
			m.SessionBegan()
			m.SessionEnded(meter.Client, 1000, meter.Classes()[n%4])
			m.Wait.Observe(time.Duration(n) * time.Millisecond)
			m.FirstReply.Observe(time.Duration(n) * time.Millisecond)
		}
	}
	s.Meters = r.Snapshot(func(_ int, f func()) { f() })
	s.Services = []api.Service{one.Services[0]}
	return s
}
