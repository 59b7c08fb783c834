package load

import (
	"strings"
	"time"
)

// unit is the unit of a metric.
type unit int

const (
	unitDuration unit = iota // in milliseconds
	unitPercent
	unitNumber
)

// String returns the unit's symbol; it is empty for a number without a unit.
func (u unit) String() string {
	switch u {
	case unitDuration:
		return "ms"
	case unitPercent:
		return "%"
	}
	return ""
}

// metric is a value of a result that can have a threshold.
type metric struct {
	name  string
	about string
	unit  unit
	// value returns the measured value in the metric's unit. It returns false if nothing was measured.
	value func(*Result) (float64, bool)
}

// aggregate reduces a distribution to one duration.
type aggregate struct {
	name string
	of   func(Times) time.Duration
}

func quantile(name string, q float64) aggregate {
	return aggregate{name, func(t Times) time.Duration { return t.Quantile(q) }}
}

var aggregates = []aggregate{
	quantile("p50", 0.5), quantile("p90", 0.9), quantile("p95", 0.95), quantile("p99", 0.99), quantile("p99.9", 0.999),
	{"max", Times.Max},
	{"mean", Times.Mean},
}

// metrics are all metrics, in the order in which the help lists them.
var metrics = func() []metric {
	var all []metric
	for _, d := range []struct {
		prefix, about string
		of            func(*Result) Times
	}{
		{"", "latency", func(r *Result) Times { return r.Latency }},
		{"connect-", "time to connect, over all sessions", func(r *Result) Times { return both(r.Connect, r.ConnectAgain) }},
		{"first-reply-", "time to connect and get the first reply, over all sessions", func(r *Result) Times { return both(r.FirstEcho, r.ReplyAgain) }},
		{"final-", "time from the end of audio to the final answer", func(r *Result) Times { return r.Final }},
	} {
		for _, a := range aggregates {
			all = append(all, metric{d.prefix + a.name, d.about, unitDuration, func(r *Result) (float64, bool) {
				t := d.of(r)
				return milliseconds(a.of(t)), t.Count() > 0
			}})
		}
	}
	number := func(name, about string, of func(*Result) int64) metric {
		return metric{name, about, unitNumber, func(r *Result) (float64, bool) { return float64(of(r)), true }}
	}
	return append(all,
		metric{"all-connected", "time until all clients were connected", unitDuration, func(r *Result) (float64, bool) {
			return milliseconds(r.AllConnected), r.Connected > 0 && r.Connected == r.Connections
		}},
		metric{"all-answered", "time until all clients had their first reply", unitDuration, func(r *Result) (float64, bool) {
			return milliseconds(r.LastFirstEcho), r.Connected > 0 && r.FirstEcho.Count() == int64(r.Connections)
		}},
		number("failures", "sessions that failed or could not connect", func(r *Result) int64 { return r.Failures() }),
		metric{"failure-rate", "the share of such sessions", unitPercent, func(r *Result) (float64, bool) {
			return 100 * float64(r.Failures()) / float64(max(r.Begun, 1)), r.Begun > 0
		}},
		number("lost", "messages without a reply", func(r *Result) int64 { return r.Lost }),
		number("mixed", "wrong replies", func(r *Result) int64 { return r.Mixed }),
		number("abandoned", "messages without a reply when their connection failed", func(r *Result) int64 { return r.Abandoned }),
		number("unsent", "messages that could not be sent in time", func(r *Result) int64 { return r.Unsent }),
		metric{"rate", "messages received per second", unitNumber, func(r *Result) (float64, bool) {
			return r.MessagesPerSecond, r.Duration > 0
		}},
		number("sessions", "sessions completed", func(r *Result) int64 { return r.Complete }),
		metric{"session-rate", "sessions completed per second", unitNumber, func(r *Result) (float64, bool) {
			return r.SessionsPerSecond, r.Duration > 0
		}},
	)
}()

// both returns the sum of two distributions.
func both(a, b Times) (sum Times) {
	if b.Count() == 0 {
		return a
	}
	sum.add(a)
	sum.add(b)
	return sum
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func metricNamed(name string) (metric, bool) {
	for _, m := range metrics {
		if m.name == name {
			return m, true
		}
	}
	return metric{}, false
}

// MetricsHelp lists the metrics that a threshold may name, for the help text.
func MetricsHelp() string {
	var help strings.Builder
	line := func(names, about string) {
		help.WriteString(names + "\n    " + about + "\n")
	}
	var names []string
	for i, m := range metrics {
		names = append(names, m.name)
		if i+1 == len(metrics) || metrics[i+1].about != m.about {
			line(strings.Join(names, ", "), m.about)
			names = nil
		}
	}
	return strings.TrimSuffix(help.String(), "\n")
}

func metricNames() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.name
	}
	return names
}
