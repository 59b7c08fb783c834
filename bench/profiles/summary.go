//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// median returns the middle of some values, or the mean of the two in the middle. There must be one at least.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// quantile returns the least of some values that is not exceeded by a share q of them (nearest rank). There must be one at
// least.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread shows the median of some values with the extremes; a hyphen for none.
func spread(values []float64, digits int) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f - %.*f)", digits, median(values), digits, slices.Min(values), digits, slices.Max(values))
}

// ratios divides values by others of the same round. A round in which one of them is missing (0) has none.
func ratios(values, bases []float64) []float64 {
	var quotients []float64
	for i := range min(len(values), len(bases)) {
		if values[i] > 0 && bases[i] > 0 {
			quotients = append(quotients, values[i]/bases[i])
		}
	}
	return quotients
}

// measured returns the values that are there (not 0).
func measured(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v == 0 })
}

// milliseconds returns a time as tables show it.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inMilliseconds shows a number of them.
func inMilliseconds(v float64) string { return fmt.Sprintf("%.2f", v) }
