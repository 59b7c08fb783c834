//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report prints the tables and writes the files that were asked for.
func report(outcomes []outcome, o options) error {
	var text strings.Builder
	for _, result := range outcomes {
		result.table(&text)
	}
	fmt.Print(text.String())
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	encoded, err := encode(outcomes)
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, encoded, 0o644)
}

// table writes a scenario as Markdown: for each metric the median of all
// rounds with its extremes, and the median of the rounds' ratios to the base.
func (r outcome) table(w io.Writer) {
	s := r.scenario
	fmt.Fprintf(w, "### %s (%s)\n\n", s.title, s.name)
	offered := fmt.Sprintf("%d sessions x %g messages/s of %d bytes", s.load.sessions, s.load.rate, s.load.size)
	if s.idle {
		offered = fmt.Sprintf("%d idle connections, and 3 for comparison", idleConnections)
	}
	fmt.Fprintf(w, "%s, %s, %d rounds, %d processors. Median (least - most).\n\n", offered, s.load.duration, len(r.rounds), runtime.NumCPU())
	header := []string{"rival"}
	for _, m := range s.metrics {
		header = append(header, m.title)
		if m.ratio {
			header = append(header, "/ "+s.base)
		}
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
	for _, rival := range r.rivals {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r.row(rival, len(header)), " | "))
	}
	fmt.Fprintln(w)
}

func (r outcome) row(rival rival, width int) []string {
	row := []string{rival.name}
	failures, lastError := 0, ""
	for _, round := range r.rounds {
		if e := round[rival.name].Error; e != "" {
			failures, lastError = failures+1, e
		}
	}
	switch {
	case rival.missing != "":
		row = append(row, "skipped: "+rival.missing)
	case len(r.values(rival.name, r.scenario.metrics[0].key)) == 0 && failures > 0:
		row = append(row, "failed: "+strings.ReplaceAll(lastError, "|", "/"))
	case failures > 0:
		row[0] += fmt.Sprintf(" (failed in %d of %d rounds: %s)", failures, len(r.rounds), strings.ReplaceAll(lastError, "|", "/"))
		fallthrough
	default:
		for _, m := range r.scenario.metrics {
			row = append(row, spread(r.values(rival.name, m.key), m.digits))
			if m.ratio {
				row = append(row, ratio(r.ratios(rival.name, m.key)))
			}
		}
	}
	for len(row) < width {
		row = append(row, "")
	}
	return row
}

// values are a rival's values of one metric, round by round.
func (r outcome) values(rival, key string) []float64 {
	var values []float64
	for _, round := range r.rounds {
		if v, ok := round[rival].Values[key]; ok {
			values = append(values, v)
		}
	}
	return values
}

// ratios are its ratios to the base in the same round.
func (r outcome) ratios(rival, key string) []float64 {
	var ratios []float64
	for _, round := range r.rounds {
		v, ok := round[rival].Values[key]
		base, okBase := round[r.scenario.base].Values[key]
		if ok && okBase && base > 0 {
			ratios = append(ratios, v/base)
		}
	}
	return ratios
}

func spread(values []float64, digits int) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f - %.*f)", digits, median(values), digits, slices.Min(values), digits, slices.Max(values))
}

func ratio(ratios []float64) string {
	if len(ratios) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", median(ratios))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// encode writes every round's numbers, so that other statistics can be made.
func encode(outcomes []outcome) ([]byte, error) {
	type summary struct {
		Median float64 `json:"median"`
		Min    float64 `json:"min"`
		Max    float64 `json:"max"`
		Ratio  float64 `json:"ratio,omitempty"`
	}
	type entry struct {
		Scenario string                        `json:"scenario"`
		Sessions int                           `json:"sessions"`
		Rate     float64                       `json:"rate"`
		Size     int                           `json:"size"`
		Seconds  float64                       `json:"seconds"`
		Base     string                        `json:"base"`
		Skipped  map[string]string             `json:"skipped,omitempty"`
		Summary  map[string]map[string]summary `json:"summary"`
		Rounds   []round                       `json:"rounds"`
	}
	document := struct {
		Time       time.Time `json:"time"`
		Processors int       `json:"processors"`
		Go         string    `json:"go"`
		Scenarios  []entry   `json:"scenarios"`
	}{time.Now().UTC().Truncate(time.Second), runtime.NumCPU(), runtime.Version(), nil}
	for _, r := range outcomes {
		s := r.scenario
		e := entry{
			s.name, s.load.sessions, s.load.rate, s.load.size, s.load.duration.Seconds(), s.base,
			map[string]string{},
			map[string]map[string]summary{},
			r.rounds,
		}
		for _, rival := range r.rivals {
			if rival.missing != "" {
				e.Skipped[rival.name] = rival.missing
			}
			of := map[string]summary{}
			for _, m := range s.metrics {
				values := r.values(rival.name, m.key)
				if len(values) == 0 {
					continue
				}
				of[m.key] = summary{Median: median(values), Min: slices.Min(values), Max: slices.Max(values)}
				if ratios := r.ratios(rival.name, m.key); m.ratio && len(ratios) > 0 {
					entry := of[m.key]
					entry.Ratio = median(ratios)
					of[m.key] = entry
				}
			}
			e.Summary[rival.name] = of
		}
		document.Scenarios = append(document.Scenarios, e)
	}
	return json.MarshalIndent(document, "", "  ")
}
