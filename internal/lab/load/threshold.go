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

// Verdict is the result of comparing a threshold.
type Verdict struct {
	Threshold Threshold
	// Value is the measured value in Unit: ms, %, or nothing for a number without a unit.
	Value float64
	Unit  string
	// Measured reports whether there was anything to measure. If not, the threshold counts as failed.
	Measured bool
	Failed   bool
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
// threshold for lost or mixed messages, or for failures or their rate, replaces Err's check of the same number.
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
		}
	}
	err := rest.Err()
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("thresholds: %s", strings.Join(failed, "; ")))
	}
	return verdicts, err
}
