package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times is a distribution of durations, exact to three digits. It is not safe for concurrent use.
type Times struct{ histogram *hdrhistogram.Histogram }

// The range of what a distribution tells apart; what lies outside counts as the nearest.
const (
	shortestTime = int64(100 * time.Nanosecond)
	longestTime  = int64(time.Hour)
)

func newTimes() Times {
	return Times{hdrhistogram.New(shortestTime, longestTime, 3)}
}

// record adds a duration in nanoseconds. It does not allocate.
func (t Times) record(nanoseconds int64) {
	_ = t.histogram.RecordValue(min(max(nanoseconds, 0), longestTime)) // always within the range
}

// add adds everything that other holds.
func (t Times) add(other Times) { t.histogram.Merge(other.histogram) }

// Count returns the number of durations.
func (t Times) Count() int64 { return t.histogram.TotalCount() }

// Quantile returns the duration that a share q, from 0 to 1, of all durations does not exceed; 0 when there are none.
func (t Times) Quantile(q float64) time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.ValueAtQuantile(q * 100))
}

// Max returns the longest duration.
func (t Times) Max() time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.Max())
}
