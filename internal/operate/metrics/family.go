package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// family is one metric with all its series: its description, and how to read it from the statistics.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
	read       func(s *Snapshot, put put)
	// distributions is what a histogram has instead of kind and read.
	distributions func(s *Snapshot, put putDistribution)
}

// put adds a series: its value, and the values of its labels in their order.
type put func(value float64, labels ...string)

// putDistribution adds a series of a histogram.
type putDistribution func(d *meter.Distribution, labels ...string)

func newFamily(kind prometheus.ValueType, name, help string, read func(*Snapshot, put), labels []string) family {
	name = prefix + name
	return family{
		name: name, help: help, kind: kind, labels: labels, read: read,
		desc: prometheus.NewDesc(name, help, labels, nil),
	}
}

// gauge returns a metric that goes up and down.
func gauge(name, help string, read func(*Snapshot, put), labels ...string) family {
	return newFamily(prometheus.GaugeValue, name, help, read, labels)
}

// counter returns a metric that only grows while the process lives.
func counter(name, help string, read func(*Snapshot, put), labels ...string) family {
	return newFamily(prometheus.CounterValue, name, help, read, labels)
}

// histogram returns a metric that counts durations by size.
func histogram(name, help string, distributions func(*Snapshot, putDistribution), labels ...string) family {
	f := newFamily(0, name, help, nil, labels)
	f.distributions = distributions
	return f
}

// kindName returns counter, gauge or histogram.
func (f *family) kindName() string {
	switch {
	case f.distributions != nil:
		return "histogram"
	case f.kind == prometheus.CounterValue:
		return "counter"
	}
	return "gauge"
}

// collect sends all series. shared has the labels of the scrape.
func (f *family) collect(s *Snapshot, shared pairs, metrics chan<- prometheus.Metric) {
	if f.distributions != nil {
		f.distributions(s, func(d *meter.Distribution, values ...string) {
			metrics <- &histogramSeries{desc: f.desc, labels: shared.of(f.labels, values), distribution: d}
		})
		return
	}
	f.read(s, func(value float64, values ...string) {
		metrics <- &series{desc: f.desc, labels: shared.of(f.labels, values), value: value, counter: f.kind == prometheus.CounterValue}
	})
}

// each makes metrics of a list, such as the backends. Their first labels say which item of the list it is.
type each[T any] struct {
	labelled []string
	all      func(*Snapshot) []T
	names    func(*T) []string
}

func (e each[T]) gauge(name, help string, read func(*T, put), labels ...string) family {
	return gauge(name, help, e.read(read), e.labels(labels)...)
}

func (e each[T]) counter(name, help string, read func(*T, put), labels ...string) family {
	return counter(name, help, e.read(read), e.labels(labels)...)
}

func (e each[T]) labels(more []string) []string { return slices.Concat(e.labelled, more) }

func (e each[T]) read(read func(*T, put)) func(*Snapshot, put) {
	return func(s *Snapshot, put put) {
		all := e.all(s)
		for i := range all {
			names := e.names(&all[i])
			read(&all[i], func(value float64, labels ...string) {
				put(value, slices.Concat(names, labels)...)
			})
		}
	}
}

// putState adds a series for each possible state: 1 for the current one, 0 for the others. If the current state is not
// among the known ones, it gets a series, too.
func putState(put put, present string, known ...string) {
	for _, state := range known {
		put(toFloat(state == present), state)
	}
	if present != "" && !slices.Contains(known, present) {
		put(1, present)
	}
}

// toFloat returns true as 1 and false as 0.
func toFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
