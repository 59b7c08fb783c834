package results

import (
	"fmt"
	"slices"
	"strings"
)

// column is a column of the summary: a metric under one load.
type column struct {
	title    string
	scenario string
	key      string
	which    func(*Cell) bool
}

// columns returns the columns of the summary.
func columns() []column {
	usual := func(sessions int) func(*Cell) bool {
		return func(c *Cell) bool { return c.Sessions == sessions && c.usual() }
	}
	size := func(bytes int) func(*Cell) bool { return func(c *Cell) bool { return c.Size == bytes } }
	any := func(*Cell) bool { return true }
	return []column{
		{"CPU, light load", relayScenario, "cpu_us", (*Cell).light},
		{"CPU, 500", relayScenario, "cpu_us", usual(500)},
		{"CPU, 3,000", relayScenario, "cpu_us", usual(3000)},
		{"CPU, 9,000", relayScenario, "cpu_us", usual(9000)},
		{"CPU, 64 KiB", relayScenario, "cpu_us", size(64 << 10)},
		{"CPU, 3,000, clients over TLS", "tls", "cpu_us", usual(3000)},
		{"memory per session, 3,000", relayScenario, "added_kb", usual(3000)},
		{"with its part of the pool", relayScenario, "whole_kb", usual(3000)},
		{"burst: peak memory", "burst", "peak_mb", any},
		{"burst: last echo", "burst", "last_echo_ms", any},
		{"session start", "start", "first_ms", any},
		{"the same over TLS", "start-tls", "first_ms", any},
		{"CPU per short session", "churn", "session_us", any},
		{"highest rate (more is better)", "rate", "per_second", any},
	}
}

// summary writes the table of ratios at the start of the report.
func (r *Report) summary(b *strings.Builder) {
	var shown []column
	var cells []*Cell
	for _, col := range columns() {
		if c := r.cell(col.scenario, col.which); c != nil {
			shown, cells = append(shown, col), append(cells, c)
		}
	}
	if len(shown) == 0 {
		b.WriteString("Nothing was measured that the summary is about.\n\n")
		return
	}
	header := []string{"/ " + r.Base}
	for _, col := range shown {
		header = append(header, col.title)
	}
	var rows [][]string
	for _, rival := range r.Rivals {
		if rival.Name == r.Base {
			continue
		}
		row := []string{rival.Name}
		for i, col := range shown {
			row = append(row, cells[i].brief(rival.Name, r.Base, col.key))
		}
		rows = append(rows, row)
	}
	WriteTable(b, header, rows)
	b.WriteString("\n")
}

// brief shows the median of a rival's ratios, or why there is none.
func (c *Cell) brief(rival, base, key string) string {
	ratios, t := c.Ratios(rival, base, key), c.trouble(rival)
	switch {
	case ratios.Count == 0:
		return t.word()
	case t.overload != "":
		return fmt.Sprintf("%.2f *", ratios.Median)
	}
	return fmt.Sprintf("%.2f", ratios.Median)
}

// floorNames are the relays that only pass bytes on, and the direct connection.
var floorNames = []string{cRelay, "uring-relay", "direct"}

// better lists where a rival is better in every round, as in "CPU: nginx at 500 x 1 KiB (0.95)", and the same for the floors.
func (r *Report) better() (rivals, floors []string) {
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, m := range s.Metrics {
			if !m.Ratio || s.Base != r.Base {
				continue
			}
			for _, rival := range s.Rivals {
				var where []string
				for k := range s.Cells {
					c := &s.Cells[k]
					ratios := c.Ratios(rival, s.Base, m.Key)
					if ratios.Count > 0 && c.trouble(rival).overload == "" && ((m.Higher && ratios.Min > 1) || (!m.Higher && ratios.Max < 1)) {
						where = append(where, fmt.Sprintf("%s (%.2f)", c.Label, ratios.Median))
					}
				}
				text := fmt.Sprintf("%s, %s: %s at %s", s.Title, m.Title, rival, strings.Join(where, ", "))
				switch {
				case len(where) == 0 || strings.HasPrefix(rival, ours):
				case slices.Contains(floorNames, rival):
					floors = append(floors, text)
				default:
					rivals = append(rivals, text)
				}
			}
		}
	}
	return rivals, floors
}
