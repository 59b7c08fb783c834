package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// family is one metric with all its series: its description, and how to read it from the statistics.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	desc       *prometheus.Desc
	read       func(s *api.Stats, put put)
}

// put adds a series: its value, and the values of its labels in their order.
type put func(value float64, labels ...string)

func newFamily(kind prometheus.ValueType, name, help string, read func(*api.Stats, put), labels []string) family {
	name = prefix + name
	return family{
		name: name, help: help, kind: kind, labels: labels, read: read,
		desc: prometheus.NewDesc(name, help, labels, nil),
	}
}

// gauge returns a metric that goes up and down.
func gauge(name, help string, read func(*api.Stats, put), labels ...string) family {
	return newFamily(prometheus.GaugeValue, name, help, read, labels)
}

// counter returns a metric that only grows while the process lives.
func counter(name, help string, read func(*api.Stats, put), labels ...string) family {
	return newFamily(prometheus.CounterValue, name, help, read, labels)
}

func (f *family) collect(s *api.Stats, metrics chan<- prometheus.Metric) {
	f.read(s, func(value float64, labels ...string) {
		for i, label := range labels { // a path may have any bytes, but Prometheus accepts only UTF-8
			labels[i] = strings.ToValidUTF8(label, "\uFFFD")
		}
		metric, err := prometheus.NewConstMetric(f.desc, f.kind, value, labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(f.desc, err)
		}
		metrics <- metric
	})
}

// each makes metrics of a list, such as the backends. Their first label is the name of the list's item.
type each[T any] struct {
	label string
	all   func(*api.Stats) []T
	name  func(*T) string
}

func (e each[T]) gauge(name, help string, read func(*T, put), labels ...string) family {
	return gauge(name, help, e.read(read), e.labels(labels)...)
}

func (e each[T]) counter(name, help string, read func(*T, put), labels ...string) family {
	return counter(name, help, e.read(read), e.labels(labels)...)
}

func (e each[T]) labels(more []string) []string { return slices.Concat([]string{e.label}, more) }

func (e each[T]) read(read func(*T, put)) func(*api.Stats, put) {
	return func(s *api.Stats, put put) {
		all := e.all(s)
		for i := range all {
			name := e.name(&all[i])
			read(&all[i], func(value float64, labels ...string) {
				put(value, slices.Concat([]string{name}, labels)...)
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
