package results

import (
	"fmt"
	"slices"
	"strings"
)

// line is a line of the summary: a metric under one load.
type line struct {
	title    string // with its unit
	scenario string
	key      string
	which    func(*Cell) bool
	page     bool // on the page, too
}

// offPage are the programs that the page does not show: a variant of ours, the second of two floors, and the slowest.
var offPage = []string{"wsbouncer-one-shot", "uring-relay", "python"}

// lines returns the lines of the summary.
func lines() []line {
	usual := func(sessions int) func(*Cell) bool {
		return func(c *Cell) bool { return c.Sessions == sessions && c.usual() }
	}
	size := func(bytes int) func(*Cell) bool { return func(c *Cell) bool { return c.Size == bytes } }
	any := func(*Cell) bool { return true }
	return []line{
		{"CPU per round trip, 500 sessions, µs", relayScenario, "cpu_us", usual(500), true},
		{"... 1,000 sessions", relayScenario, "cpu_us", usual(1000), false},
		{"... 3,000 sessions", relayScenario, "cpu_us", usual(3000), false},
		{"... 6,000 sessions", relayScenario, "cpu_us", usual(6000), false},
		{"... 9,000 sessions", relayScenario, "cpu_us", usual(9000), true},
		{"... 500 sessions, light load", relayScenario, "cpu_us", (*Cell).light, false},
		{"... 500 sessions, 64 KiB", relayScenario, "cpu_us", size(64 << 10), false},
		{"... 3,000, clients over TLS", "tls", "cpu_us", usual(3000), true},
		{"p99 under load, 3,000 sessions, ms", relayScenario, "p99_ms", usual(3000), true},
		{"memory of a session with its part of the pool, 3,000, KiB", relayScenario, "whole_kb", usual(3000), true},
		{"memory with all sessions open, 3,000, MiB", relayScenario, "open_mb", usual(3000), false},
		{"p99 at low load, ms", "latency", "p99_ms", any, false},
		{"3,000 clients simultaneously: last first echo, ms", "burst", "last_echo_ms", any, true},
		{"... peak memory, MiB", "burst", "peak_mb", any, false},
		{"highest sustained rate, messages/s (more is better)", "rate", "per_second", any, true},
		{"first reply of a session, server 20 ms away, ms", "start", "first_ms", any, true},
		{"... over TLS", "start-tls", "first_ms", any, false},
		{"CPU per session of one second, µs", "churn", "session_us", any, true},
		{"... peak memory, MiB", "churn", "peak_mb", any, false},
	}
}

// summary writes the table at the start of the report: a line for each metric, with the base's number and the rivals' ratios to it; in full,
// also what the page does not show.
func (r *Report) summary(b *strings.Builder, full bool) {
	header := []string{"median", r.Base}
	if full {
		header = []string{"scenario", "median", r.Base}
	}
	named := len(header)
	for _, rival := range r.Rivals {
		if rival.Name != r.Base && (full || !slices.Contains(offPage, rival.Name)) {
			header = append(header, rival.Name)
		}
	}
	var rows [][]string
	for _, l := range lines() {
		c := r.cell(l.scenario, l.which)
		if c == nil || !full && !l.page {
			continue
		}
		row := []string{"`" + l.scenario + "`", l.title, c.Values(r.Base, l.key).median(r.Scenario(l.scenario).digits(l.key))}
		row = row[3-named:]
		for _, rival := range header[named:] {
			row = append(row, c.brief(rival, r.Base, l.key))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		b.WriteString("Nothing was measured that the summary is about.\n\n")
		return
	}
	WriteTable(b, header, rows)
	b.WriteString("\n")
}

// digits returns with how many digits after the point a metric is shown.
func (s *Scenario) digits(key string) int {
	for _, m := range s.Metrics {
		if m.Key == key {
			return m.Digits
		}
	}
	return 0
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

// better lists where a rival is better in every round, as in "`relay`, CPU: nginx at 500 x 1 KiB (0.95)", and the same for the floors.
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
				text := fmt.Sprintf("`%s`, %s: %s at %s", s.Name, m.Title, rival, strings.Join(where, ", "))
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
