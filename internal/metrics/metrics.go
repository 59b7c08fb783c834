// Package metrics exposes the proxy's statistics to Prometheus. It counts nothing itself: each scrape takes one snapshot, and
// all numbers of the scrape come from it.
//
// docs/metrics.md describes the metrics; a test compares it with the code.
package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// prefix is what the names of all metrics begin with.
const prefix = "wsbouncer_"

// New returns a collector of the statistics that source returns. The collector calls source once for each scrape, from any
// goroutine.
func New(source func() api.Stats) prometheus.Collector {
	return &collector{source: source, families: families()}
}

// families returns all metrics.
func families() []family {
	return slices.Concat(ofProcess(), ofConfiguration(), ofSessions(), ofServices(), ofBackends(), ofLoops())
}

// collector may be used from any goroutine.
type collector struct {
	source   func() api.Stats // static
	families []family         // static
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for i := range c.families {
		descs <- c.families[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	s := c.source()
	for i := range c.families {
		c.families[i].collect(&s, metrics)
	}
}
