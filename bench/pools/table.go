package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// series is a pool and the number of goroutines that used it.
type series struct {
	goroutines int
	design     string
}

// results are the outcomes of each series, round by round.
type results map[series][]outcome

// print writes the table, as Markdown: medians over the rounds, and the median of the rounds' ratios.
func (r results) print(w io.Writer, o options) {
	fmt.Fprintf(w, "%d processors, %s, %d rounds of %v; dials and pings take %v, latency at %g leases/s in all.\n",
		runtime.GOMAXPROCS(0), runtime.Version(), o.rounds, o.duration, o.roundTrip, o.rate)
	fmt.Fprintf(w, "Other processes used %.2f processors at most.\n\n", r.disturbance())
	header := []string{
		"goroutines", "pool", "leases/s", "p50", "p99", "p99.9", "maximum", "p99 / " + ours, "dead ones leased", "most open (size)",
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
	for _, n := range o.goroutines {
		for _, d := range designs {
			if s := (series{n, d.name}); len(r[s]) > 0 {
				fmt.Fprintf(w, "| %s |\n", strings.Join(r.row(s), " | "))
			}
		}
	}
}

// disturbance returns how many processors others used in the measurement that they disturbed most.
func (r results) disturbance() (most float64) {
	for _, all := range r {
		for _, o := range all {
			most = max(most, o.others)
		}
	}
	return most
}

func (r results) row(s series) []string {
	all, base := r[s], r[series{s.goroutines, ours}]
	var ratios []float64
	for i := range min(len(all), len(base)) {
		ratios = append(ratios, float64(all[i].p99)/float64(base[i].p99))
	}
	times := func(of func(outcome) time.Duration) string { return short(middle(all, of)) }
	ratio := "-"
	if len(ratios) > 0 {
		ratio = fmt.Sprintf("%.3g", median(ratios))
	}
	return []string{
		fmt.Sprint(s.goroutines), s.design,
		grouped(int(middle(all, func(o outcome) float64 { return o.perSecond }))),
		times(func(o outcome) time.Duration { return o.p50 }),
		times(func(o outcome) time.Duration { return o.p99 }),
		times(func(o outcome) time.Duration { return o.p999 }),
		times(func(o outcome) time.Duration { return o.max }),
		ratio,
		fmt.Sprint(middle(all, func(o outcome) int64 { return o.dead })),
		fmt.Sprintf("%d (%d)", slices.MaxFunc(all, func(a, b outcome) int { return a.most - b.most }).most, size(s.goroutines)),
	}
}

// middle returns the median of what the outcomes are asked for.
func middle[N int64 | float64 | time.Duration](all []outcome, of func(outcome) N) N {
	values := make([]N, len(all))
	for i, o := range all {
		values[i] = of(o)
	}
	return median(values)
}

func median[N int64 | float64 | time.Duration](values []N) N {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// short writes a time with three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2f us", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f us", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f ms", float64(d)/1e6)
}

// grouped writes a number with commas.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
