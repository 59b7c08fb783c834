package load

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Threshold is a limit for a metric, such as p99>50ms: the run fails if the comparison is true. ParseThreshold makes one.
type Threshold struct {
	metric     metric
	comparator string
	limit      float64 // in the metric's unit
	text       string
}

// comparators are the comparisons of thresholds. ">=" comes before ">", since the first one that matches is used.
var comparators = []string{">=", "<=", ">", "<"}

// ParseThreshold reads a threshold: a metric, one of > >= < <=, and a limit in the metric's unit, with or without spaces
// between them.
func ParseThreshold(text string) (Threshold, error) {
	malformed := func(format string, args ...any) (Threshold, error) {
		return Threshold{}, fmt.Errorf("%q: "+format, append([]any{text}, args...)...)
	}
	at := strings.IndexAny(text, "<>=!")
	if at < 0 {
		return malformed("no comparison: use a threshold such as p99>50ms, with one of > >= < <=")
	}
	name := strings.TrimSpace(text[:at])
	t := Threshold{}
	for _, comparator := range comparators {
		if strings.HasPrefix(text[at:], comparator) {
			t.comparator = comparator
			break
		}
	}
	limit := strings.TrimSpace(text[at+len(t.comparator):])
	if t.comparator == "" || strings.ContainsAny(limit, "<>=!") {
		return malformed("use one of the comparisons > >= < <=")
	}
	var known bool
	if t.metric, known = metricNamed(name); !known {
		return malformed("%w", spelling.Unknown("metric", name, metricNames()))
	}
	var ok bool
	if t.limit, ok = parseLimit(limit, t.metric.unit); !ok {
		return malformed("invalid limit %q for %s: use %s", limit, name, limitHelp[t.metric.unit])
	}
	t.text = name + t.comparator + limit
	return t, nil
}

var limitHelp = map[unit]string{
	unitDuration: "a duration of 0s or more with its unit, such as 50ms",
	unitPercent:  "a percentage from 0% to 100%, such as 0.5%",
	unitNumber:   "a number of 0 or more without a unit, such as 100",
}

func parseLimit(text string, u unit) (limit float64, ok bool) {
	var err error
	switch u {
	case unitDuration:
		var d time.Duration
		d, err = time.ParseDuration(text)
		limit = milliseconds(d)
		if text == "0" { // it lacks the unit
			return 0, false
		}
	case unitPercent:
		number, percent := strings.CutSuffix(text, "%")
		limit, err = strconv.ParseFloat(number, 64)
		if !percent || limit > 100 {
			return 0, false
		}
	default:
		limit, err = strconv.ParseFloat(text, 64)
	}
	return limit, err == nil && limit >= 0 && !math.IsInf(limit, 0) // NaN is not >= 0
}

// String returns the threshold's text without spaces.
func (t Threshold) String() string { return t.text }

// MarshalText is String, for JSON.
func (t Threshold) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// Verdict is the result of comparing a threshold.
type Verdict struct {
	Threshold Threshold `json:"threshold"`
	// Measured reports whether there was anything to measure. If not, the threshold counts as failed.
	Measured bool `json:"measured"`
	// Value is the measured value in Unit: ms, %, or nothing for a number without a unit.
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Failed bool    `json:"failed"`
}

// String returns the threshold, whether it held, and the measured value, such as "p99>50ms: failed, 61.3ms".
func (v Verdict) String() string {
	return v.Threshold.text + ": " + v.Word() + ", " + v.Text()
}

// Word returns "ok" or "failed".
func (v Verdict) Word() string {
	if v.Failed {
		return "failed"
	}
	return "ok"
}

// Text returns the measured value with its unit.
func (v Verdict) Text() string {
	switch {
	case !v.Measured:
		return "nothing measured"
	case v.Unit == unitDuration.String():
		return time.Duration(v.Value * float64(time.Millisecond)).Round(time.Microsecond).String()
	}
	return strconv.FormatFloat(math.Round(v.Value*1000)/1000, 'f', -1, 64) + v.Unit
}

// judge compares the threshold with a result.
func (t Threshold) judge(r *Result) Verdict {
	v := Verdict{Threshold: t, Unit: t.metric.unit.String()}
	v.Value, v.Measured = t.metric.value(r)
	switch t.comparator {
	case ">":
		v.Failed = v.Value > t.limit
	case ">=":
		v.Failed = v.Value >= t.limit
	case "<":
		v.Failed = v.Value < t.limit
	case "<=":
		v.Failed = v.Value <= t.limit
	}
	v.Failed = v.Failed || !v.Measured
	return v
}

// Judge compares the thresholds with the result. Its error says what is wrong by the thresholds and by [Result.Err]. But a
// threshold for lost or mixed messages, for failures or their rate, or for texts, replaces Err's check of the same number.
func (r *Result) Judge(thresholds []Threshold) ([]Verdict, error) {
	verdicts := make([]Verdict, len(thresholds))
	var failed []string
	rest := *r
	for i, t := range thresholds {
		verdicts[i] = t.judge(r)
		if verdicts[i].Failed {
			failed = append(failed, verdicts[i].String())
		}
		switch t.metric.name {
		case "lost":
			rest.Lost = 0
		case "mixed":
			rest.Mixed = 0
		case "failures", "failure-rate":
			rest.Failed, rest.Refused = 0, 0
		case "same-text", "words-alike":
			rest.Speech = nil
		}
	}
	err := rest.Err()
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("thresholds: %s", strings.Join(failed, "; ")))
	}
	return verdicts, err
}

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
	times := func(prefix, about string, of func(*Result) Times) {
		for _, a := range aggregates {
			all = append(all, metric{prefix + a.name, about, unitDuration, func(r *Result) (float64, bool) {
				t := of(r)
				return milliseconds(a.of(t)), t.Count() > 0
			}})
		}
	}
	times("", "latency; with audio, the lag", func(r *Result) Times { return r.Latency })
	times("connect-", "time to connect, over all sessions", func(r *Result) Times { return both(r.Connect, r.ConnectAgain) })
	times("first-reply-", "time to connect and get the first reply, over all sessions", func(r *Result) Times { return both(r.FirstEcho, r.ReplyAgain) })
	number := func(name, about string, of func(*Result) int64) metric {
		return metric{name, about, unitNumber, func(r *Result) (float64, bool) { return float64(of(r)), true }}
	}
	all = append(all,
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
	times("lag-", "with audio: time from when audio was due to a result that answers it", func(r *Result) Times { return r.spoke().lag })
	times("first-result-", "with audio: time from a session's first audio to its first result", func(r *Result) Times { return r.spoke().First })
	times("partial-", "with audio: time that the oldest audio without a result had waited when one came", func(r *Result) Times { return r.spoke().Partial })
	times("final-", "with audio: time from the end of audio to the last message", func(r *Result) Times { return r.spoke().Final })
	return append(all,
		metric{"lag-growth", "with audio: growth of the lag within sessions, in seconds a second", unitNumber, func(r *Result) (float64, bool) {
			g := r.spoke().Growth
			return g.PerSecond, g.Sessions > 0
		}},
		metric{"real-time-factor", "with audio: time that sessions took, by the length of their audio", unitNumber, func(r *Result) (float64, bool) {
			return r.spoke().RealTime, r.spoke().RealTime > 0
		}},
		metric{"same-text", "with audio: share of sessions with the text of a session that was alone", unitPercent, func(r *Result) (float64, bool) {
			share, ok := r.spoke().SameShare()
			return 100 * share, ok
		}},
		metric{"words-alike", "with audio: share of words that sessions had in common with that text", unitPercent, func(r *Result) (float64, bool) {
			_, ok := r.spoke().SameShare()
			return 100 * r.spoke().Alike, ok
		}},
	)
}()

// spoken is what a run with audio has measured.
type spoken struct {
	Speech
	lag Times
}

// spoke returns what the run has measured with audio; nothing if it had none.
func (r *Result) spoke() (s spoken) {
	if r.Speech != nil {
		s.Speech, s.lag = *r.Speech, r.Latency
	}
	return s
}

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
