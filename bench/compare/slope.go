//go:build linux

package main

import (
	"math"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// unknown is the value of a metric that one run alone does not tell.
func unknown(observation) float64 { return math.NaN() }

// wideApart is by how much the numbers of sessions have to differ for that.
const wideApart = 500

// addSlopes completes a scenario with what takes runs under several loads to tell: how much memory each session takes in all, from
// the run with the fewest sessions to another one in the same round. A pool that has been filled before is part of that, and the
// program itself is not.
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
					run.Values["whole_kb"] = (many - few) * 1024 / float64(c.Sessions-fewest.Sessions)
				}
			}
		}
	}
}
