//go:build linux

package main

import (
	"math"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// unknown is the value of a metric that a single run cannot show.
func unknown(observation) float64 { return math.NaN() }

// wideApart is how much the numbers of sessions must differ to show it.
const wideApart = 500

// addSlopes adds the metric that needs runs under several loads: how much memory a session takes in all. It is the slope from the run
// with the fewest sessions to another run of the same round, so it includes a pool that was filled before, and not the program.
func addSlopes(s *results.Scenario) {
	var fewest *results.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Size == usualSize && (fewest == nil || c.Sessions < fewest.Sessions) {
			fewest = c
		}
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		if fewest == nil || c.Size != usualSize || c.Sessions < fewest.Sessions+wideApart {
			continue
		}
		for n := range min(len(c.Rounds), len(fewest.Rounds)) {
			for name, run := range c.Rounds[n] {
				few, ok := fewest.Rounds[n][name].Values["open_mb"]
				many, okMany := run.Values["open_mb"]
				if ok && okMany {
					run.Values["whole_kb"] = significant((many - few) * 1024 / float64(c.Sessions-fewest.Sessions))
				}
			}
		}
	}
}

// line fits a straight line to points by least squares. It returns its slope and the slope's standard error, which less than three points do
// not show.
func line(xs, ys []float64) (slope, deviation float64) {
	n := float64(len(xs))
	var x, y, xx, xy, rest float64 // means, and sums of products of distances from them
	for i := range xs {
		x, y = x+xs[i]/n, y+ys[i]/n
	}
	for i := range xs {
		xx += (xs[i] - x) * (xs[i] - x)
		xy += (xs[i] - x) * (ys[i] - y)
	}
	slope = xy / xx
	for i := range xs {
		d := ys[i] - y - slope*(xs[i]-x)
		rest += d * d
	}
	if n < 3 {
		return slope, math.NaN()
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}
