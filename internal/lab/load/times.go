package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times is a distribution of durations, exact to three digits. The zero value is empty; it allocates memory for its first
// duration. It is not safe for concurrent use. Copies share the durations.
type Times struct{ histogram *hdrhistogram.Histogram }

// The range of a distribution. A duration outside of it counts as the nearest one within.
const (
	shortestTime = int64(100 * time.Nanosecond)
	longestTime  = int64(time.Hour)
)

// record adds a duration in nanoseconds. It allocates only for the first one.
func (t *Times) record(nanoseconds int64) {
	if t.histogram == nil {
		t.histogram = hdrhistogram.New(shortestTime, longestTime, 3)
	}
	_ = t.histogram.RecordValue(min(max(nanoseconds, 0), longestTime)) // always within the range
}

// add adds everything that other holds.
func (t *Times) add(other Times) {
	if other.Count() == 0 {
		return
	}
	if t.histogram == nil {
		t.histogram = hdrhistogram.New(shortestTime, longestTime, 3)
	}
	t.histogram.Merge(other.histogram)
}

// clear makes the distribution empty and keeps its memory.
func (t *Times) clear() {
	if t.Count() > 0 {
		t.histogram.Reset()
	}
}

// Count returns the number of durations.
func (t Times) Count() int64 {
	if t.histogram == nil {
		return 0
	}
	return t.histogram.TotalCount()
}

// Quantile returns the duration that a share q of all durations, from 0 to 1, does not exceed; 0 if there are none.
func (t Times) Quantile(q float64) time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.ValueAtQuantile(q * 100))
}

// Mean returns the mean of the durations, 0 when there are none.
func (t Times) Mean() time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.Mean())
}

// Max returns the longest duration, 0 when there are none.
func (t Times) Max() time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.Max())
}

// Step is a place on the curve of a distribution.
type Step struct {
	Quantile float64 // the share, from 0 to 1, of all durations
	Time     time.Duration
}

// stepsPerHalf is the number of steps of a curve until the remaining share of durations has halved.
const stepsPerHalf = 5

// Curve returns the distribution as a curve. Its steps get denser towards the longest duration, which is the last step. It
// has no steps if there are no durations.
func (t Times) Curve() []Step {
	if t.Count() == 0 {
		return nil
	}
	brackets := t.histogram.CumulativeDistributionWithTicks(stepsPerHalf)
	steps := make([]Step, len(brackets))
	for i, b := range brackets {
		steps[i] = Step{Quantile: b.Quantile / 100, Time: time.Duration(b.ValueAt)}
	}
	return steps
}
