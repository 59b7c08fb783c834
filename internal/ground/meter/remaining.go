package meter

import "time"

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
