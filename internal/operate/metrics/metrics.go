// Package metrics exposes the proxy's statistics to Prometheus. It counts nothing itself: each scrape takes one snapshot, and
// all numbers of the scrape come from it. Only tenants' counters remember the last scrape, so that they never fall.
//
// docs/reference/metrics.md describes the metrics; a test compares it with the code.
package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// prefix is what the names of all metrics begin with.
const prefix = "wsbouncer_"

// New returns a collector of the statistics that source returns. The collector calls source once for each scrape, from any
// goroutine, and never twice at the same time.
func New(source func() Snapshot) prometheus.Collector {
	return &collector{source: source, families: families()}
}

// Snapshot is what a scrape shows.
type Snapshot struct {
	api.Stats
	Meters meter.Snapshot     // what was counted for each backend
	Turns  meter.Distribution // of all event loops
}

// families returns all metrics.
func families() []family {
	return slices.Concat(ofProcess(), ofProblems(), ofConfiguration(), ofFleet(), ofTLS(), ofSessions(), ofAuthentication(), ofLimits(), ofServices(), ofTenants(), ofDiscovery(), ofPools(), ofHealth(), ofTotals(), ofMeters(), ofFailover(), ofLoops())
}

// Names returns the names of all metrics, and of the series that histograms consist of.
func Names() map[string]bool {
	names := make(map[string]bool)
	for _, f := range families() {
		names[f.name] = true
		if f.distributions != nil {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[f.name+suffix] = true
			}
		}
	}
	return names
}

// collector may be used from any goroutine.
type collector struct {
	source   func() Snapshot // static
	families []family        // static

	mu sync.Mutex // held during a scrape, so that scrapes have the order of their snapshots
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for i := range c.families {
		descs <- c.families[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, shared := c.source(), make(pairs)
	for i := range c.families {
		c.families[i].collect(&s, shared, metrics)
	}
}
