//go:build linux

package main

import (
	"math"
	"testing"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

func TestSlopesAreThoseOfARound(t *testing.T) {
	cell := func(sessions, size int, rounds ...float64) results.Cell {
		c := results.Cell{Sessions: sessions, Size: size}
		for _, mib := range rounds {
			c.Rounds = append(c.Rounds, results.Round{"a": {Values: map[string]float64{"open_mb": mib}}, "broken": {Error: "x"}})
		}
		return c
	}
	s := &results.Scenario{Cells: []results.Cell{cell(1100, 1024, 12, 22), cell(76, 1024, 10, 10), cell(100, 1024, 11), cell(2000, 64, 99)}}
	addSlopes(s)
	for n, want := range []float64{2, 12} { // MiB more for 1,024 sessions more
		if got := s.Cells[0].Rounds[n]["a"].Values["whole_kb"]; got != want {
			t.Errorf("round %d: %g KiB, want %g", n, got, want)
		}
	}
	for _, i := range []int{1, 2, 3} {
		if v, ok := s.Cells[i].Rounds[0]["a"].Values["whole_kb"]; ok {
			t.Errorf("cell %d has %g", i, v)
		}
	}
}

func TestFewSessionsTellNothingOfMemory(t *testing.T) {
	o := observation{before: 1 << 20, open: 5 << 20}
	o.load.Connected = 4096
	if got := perSession(o); got != 1 {
		t.Errorf("%g KiB, want 1", got)
	}
	o.load.Connected = 500
	if got := perSession(o); !math.IsNaN(got) {
		t.Errorf("%g KiB, want none", got)
	}
	into := results.Round{}
	turn{scenario: scenario{metrics: []metric{{key: "added_kb", value: perSession}}}}.evaluate(into, map[string]observation{"a": o})
	if _, ok := into["a"].Values["added_kb"]; ok {
		t.Error("no number is a number in the results")
	}
}

func TestLine(t *testing.T) {
	slope, deviation := line([]float64{0, 1, 2, 3}, []float64{5, 8, 9, 12})
	if math.Abs(slope-2.2) > 1e-9 || math.Abs(deviation-math.Sqrt(0.8/2/5)) > 1e-9 {
		t.Errorf("%g ± %g", slope, deviation)
	}
	if slope, deviation = line([]float64{0, 2}, []float64{1, 5}); slope != 2 || !math.IsNaN(deviation) {
		t.Errorf("of two points: %g ± %g", slope, deviation)
	}
}
