package results

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
)

// Drawing is a plot of the report.
type Drawing struct {
	File, Title string
	SVG         string
}

// Drawings returns the plots of how costs grow with the number of sessions, without those that nothing was measured for.
func (r *Report) Drawings() ([]Drawing, error) {
	s := r.Scenario(relayScenario)
	if s == nil {
		return nil, nil
	}
	var all []Drawing
	for _, d := range []struct{ file, title, axis, key string }{
		{"cpu-per-round-trip.svg", "Processor time of the proxy per round trip", "µs per round trip of 1 KiB", "cpu_us"},
		{"memory-per-session.svg", "Memory of a session, with its part of a pool", "KiB per session", "whole_kb"},
		{"memory.svg", "Memory of the proxy with all sessions open", "MiB", "open_mb"},
		{"latency-p99.svg", "99th percentile of the round trip under load", "ms", "p99_ms"},
	} {
		chart := report.Chart{Title: d.title, X: "sessions, with the same number of messages a second in all", Y: d.axis}
		points := 0
		for _, rival := range s.Rivals {
			line := s.growth(rival, d.key, rival == r.Base)
			chart.Lines = append(chart.Lines, line)
			points += len(line.Points)
		}
		if points == 0 {
			continue // this plan did not measure it
		}
		svg, err := chart.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.file, err)
		}
		all = append(all, Drawing{d.file, d.title, svg})
	}
	return all, nil
}

// growth returns a rival's line: a metric by number of sessions, with messages of 1 KiB.
func (s *Scenario) growth(rival, key string, strong bool) report.ChartLine {
	line, overloaded := report.ChartLine{Name: rival, Strong: strong}, 0
	for i := range s.Cells {
		c := &s.Cells[i]
		v := c.Values(rival, key)
		if !c.usual() || v.Count == 0 || v.Median <= 0 {
			continue
		}
		point := report.ChartPoint{X: float64(c.Sessions), Y: v.Median}
		if v.Count > 1 && v.Min > 0 {
			point.Min, point.Max = v.Min, v.Max
		}
		if c.overloaded(rival) {
			overloaded++
		}
		line.Points = append(line.Points, point)
	}
	switch {
	case len(line.Points) == 0:
		line.Note = "no numbers"
	case overloaded == len(line.Points):
		line.Note = "overloaded"
	case overloaded > 0:
		line.Note = "partly overloaded"
	}
	return line
}
