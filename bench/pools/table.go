//go:build linux

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// series is a pool and the number of goroutines that used it.
type series struct {
	goroutines int
	design     string
}

// outcomes are the outcomes of each series, round by round.
type outcomes map[series][]outcome

// print writes the table in Markdown: medians over the rounds, and the median of the rounds' ratios.
func (r outcomes) print(w io.Writer, o options) {
	disturbance := 0.0
	for _, all := range r {
		for _, measured := range all {
			disturbance = max(disturbance, measured.others)
		}
	}
	var rows [][]string
	for _, n := range o.goroutines {
		for _, d := range designs {
			if s := (series{n, d.name}); len(r[s]) > 0 {
				rows = append(rows, r.row(s))
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, %s, %d rounds of %v; dials and pings take %v, latency at %g leases/s in all.\n",
		runtime.GOMAXPROCS(0), runtime.Version(), o.rounds, o.duration, o.roundTrip, o.rate)
	fmt.Fprintf(&b, "Other processes used %.2f processors at most.\n\n", disturbance)
	results.WriteTable(&b, []string{
		"goroutines", "pool", "leases/s", "p50", "p99", "p99.9", "maximum", "p99 / " + ours, "dead ones leased", "most open (size)",
	}, rows)
	_, _ = io.WriteString(w, b.String())
}

func (r outcomes) row(s series) []string {
	all, base := r[s], r[series{s.goroutines, ours}]
	median := func(of func(outcome) float64) float64 {
		var values []float64
		for _, o := range all {
			values = append(values, of(o))
		}
		return results.Median(values)
	}
	latency := func(of func(outcome) time.Duration) string {
		return short(time.Duration(median(func(o outcome) float64 { return float64(of(o)) })))
	}
	var ratios []float64
	for i := range min(len(all), len(base)) {
		ratios = append(ratios, float64(all[i].p99)/float64(base[i].p99))
	}
	ratio := "-"
	if len(ratios) > 0 {
		ratio = fmt.Sprintf("%.3g", results.Median(ratios))
	}
	return []string{
		fmt.Sprint(s.goroutines), s.design,
		grouped(int(median(func(o outcome) float64 { return o.perSecond }))),
		latency(func(o outcome) time.Duration { return o.p50 }),
		latency(func(o outcome) time.Duration { return o.p99 }),
		latency(func(o outcome) time.Duration { return o.p999 }),
		latency(func(o outcome) time.Duration { return o.max }),
		ratio,
		fmt.Sprintf("%.0f", median(func(o outcome) float64 { return float64(o.dead) })),
		fmt.Sprintf("%d (%d)", slices.MaxFunc(all, func(a, b outcome) int { return a.most - b.most }).most, size(s.goroutines)),
	}
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
