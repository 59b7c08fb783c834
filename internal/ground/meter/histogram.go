package meter

import (
	"math"
	"sync/atomic"
	"time"
)

// maxBounds is the most bounds that a histogram has.
const maxBounds = 12

// Histogram counts durations by size. Any goroutine may use it.
type Histogram struct {
	bounds []time.Duration // static: the upper bounds of the buckets but the last, which has none; a duration on a bound is below it
	counts [maxBounds + 1]atomic.Uint64
	sums   [maxBounds + 1]atomic.Int64 // of the durations in each bucket, in microseconds: in nanoseconds, thousands of sessions overflow it within days
}

// NewHistogram returns a histogram with these upper bounds, at most 12, in ascending order.
func NewHistogram(bounds ...time.Duration) *Histogram {
	if len(bounds) > maxBounds {
		panic("meter: too many bounds")
	}
	return &Histogram{bounds: bounds}
}

// Observe counts a duration. One below 0, which only a clock that was set could cause, counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.sums[i].Add((d + 500).Microseconds())
	h.counts[i].Add(1)
}

// Read returns what was counted so far.
func (h *Histogram) Read() Distribution {
	d := Distribution{Bounds: h.bounds}
	for i := range h.counts {
		d.Counts[i], d.Sums[i] = h.counts[i].Load(), float64(h.sums[i].Load())/1e6
		d.Sum += d.Sums[i]
	}
	return d
}

// Distribution is what a histogram has counted. The zero value has counted nothing.
type Distribution struct {
	// Bounds are the upper bounds of the buckets but the last. They must not be changed.
	Bounds []time.Duration
	// Counts are the durations in each bucket, each counted once; the one behind the last bound has no upper bound.
	Counts [maxBounds + 1]uint64
	Sums   [maxBounds + 1]float64 // of the durations in each bucket, in seconds
	Sum    float64                // of all durations, in seconds
}

// Count returns how many durations were counted.
func (d Distribution) Count() (n uint64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// Add adds what a histogram with the same bounds has counted.
func (d *Distribution) Add(other *Distribution) {
	if d.Bounds == nil {
		d.Bounds = other.Bounds
	}
	for i, n := range other.Counts {
		d.Counts[i] += n
		d.Sums[i] += other.Sums[i]
	}
	d.Sum += other.Sum
}

// Since returns what was counted since an earlier distribution of the same histogram was read.
func (d Distribution) Since(earlier Distribution) Distribution {
	since := d
	for i, n := range earlier.Counts {
		since.Counts[i] -= min(n, since.Counts[i])
		since.Sums[i] -= earlier.Sums[i]
	}
	since.Sum -= earlier.Sum
	return since
}

// Quantile returns the duration that a part q of the durations does not exceed, such as the median for 0.5. It assumes that durations
// are spread evenly around their mean in each bucket; the result is not above the highest bound. It is 0 if nothing was counted.
func (d Distribution) Quantile(q float64) time.Duration {
	left := q * float64(d.Count())
	lower := time.Duration(0)
	for i, upper := range d.Bounds {
		n := float64(d.Counts[i])
		if n > 0 && left <= n {
			low, high := lower, upper
			if mean := time.Duration(math.Round(d.Sums[i] / n * 1e9)); lower <= mean && mean <= upper {
				low, high = max(lower, 2*mean-upper), min(upper, 2*mean-lower)
			}
			return low + time.Duration(float64(high-low)*max(left, 0)/n)
		}
		left -= n
		lower = upper
	}
	if d.Count() == 0 {
		return 0
	}
	return lower
}

// Remaining returns how much longer something lasts on average that has lasted for age, if it is like what the distribution has counted:
// the mean over those that lasted longer. Durations within a bucket count as spread evenly. Of those behind the last bound, and of one that
// has outlasted all that were counted, nothing better is known than that they last as long again.
func (d Distribution) Remaining(age time.Duration) time.Duration {
	at, total, weight := float64(age), 0.0, 0.0
	d.buckets(func(low, high, n float64) {
		if at >= high {
			return
		}
		if at > low {
			n *= (high - at) / (high - low)
			low = at
		}
		weight += n
		total += n * ((low+high)/2 - at)
	})
	if n := float64(d.Counts[len(d.Bounds)]); n > 0 {
		last := float64(d.last())
		weight += n
		total += n * (2*max(at, last) - at)
	}
	if weight == 0 {
		return age
	}
	return time.Duration(total / weight)
}

// MeanRemaining returns how much longer something lasts on average that is known only to be in progress at this moment; 0 if nothing was
// counted. Long ones are more often met than short ones, so this is more than half of the mean.
func (d Distribution) MeanRemaining() time.Duration {
	sum, squares := 0.0, 0.0
	d.buckets(func(low, high, n float64) {
		sum += n * (low + high) / 2
		squares += n * (low*low + low*high + high*high) / 3
	})
	if n, last := float64(d.Counts[len(d.Bounds)]), float64(d.last()); n > 0 {
		sum += n * 2 * last
		squares += n * 4 * last * last
	}
	if sum == 0 {
		return 0
	}
	return time.Duration(squares / (2 * sum))
}

// buckets calls f with the bounds of each bucket but the last, and what it has counted.
func (d Distribution) buckets(f func(low, high, n float64)) {
	low := time.Duration(0)
	for i, high := range d.Bounds {
		if d.Counts[i] > 0 {
			f(float64(low), float64(high), float64(d.Counts[i]))
		}
		low = high
	}
}

// last returns the last bound.
func (d Distribution) last() time.Duration {
	if len(d.Bounds) == 0 {
		return 0
	}
	return d.Bounds[len(d.Bounds)-1]
}
