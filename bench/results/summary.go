package results

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// line is a line of the summary: a metric under one load.
type line struct {
	title    string // with its unit
	scenario string
	key      string
	which    func(*Cell) bool
}

// lines returns the lines of the summary.
func lines() []line {
	usual := func(sessions int) func(*Cell) bool {
		return func(c *Cell) bool { return c.Sessions == sessions && c.usual() }
	}
	any := func(*Cell) bool { return true }
	return []line{
		{"CPU per round trip, 500 sessions, µs", relayScenario, "cpu_us", usual(500)},
		{"... 9,000 sessions", relayScenario, "cpu_us", usual(9000)},
		{"... 1,000 round trips a second in all", "light", "cpu_us", any},
		{"... 3,000, clients over TLS", "tls", "cpu_us", usual(3000)},
		{"p99 under load, 3,000 sessions, ms", relayScenario, "p99_ms", usual(3000)},
		{"memory of a session with its part of the pool, 3,000, KiB", relayScenario, "whole_kb", usual(3000)},
		{"3,000 clients simultaneously: last first echo, ms", "burst", "last_echo_ms", any},
		{"highest sustained rate, messages/s (more is better)", "rate", "per_second", any},
		{"first reply of a session, server 20 ms away, ms", "start", "first_ms", any},
		{"CPU per session of one second, µs", "churn", "session_us", any},
	}
}

// extremes are what [Spread.Text] adds to the median.
var extremes = regexp.MustCompile(` \([^)]*\)`)

// summary writes the table at the start of the report: a line for each metric, with the base's number and the rivals' ratios to it.
func (r *Report) summary(b *strings.Builder) {
	header := []string{"", r.Base}
	for _, rival := range r.Rivals {
		if rival.Name != r.Base && rival.Name != "wsbouncer-one-shot" {
			header = append(header, rival.Name)
		}
	}
	var rows [][]string
	for _, l := range lines() {
		c := r.cell(l.scenario, l.which)
		if c == nil {
			continue
		}
		s := r.Scenario(l.scenario)
		row := []string{l.title, c.show(r.Base, r.Base, Metric{Key: l.key, Digits: s.digits(l.key)}, false)}
		for _, rival := range header[2:] {
			row = append(row, extremes.ReplaceAllString(c.show(rival, r.Base, Metric{Key: l.key}, true), ""))
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

// features writes a table of what each feature costs: the base's numbers, and the ratios of the others to them.
func (r *Report) features(b *strings.Builder) {
	s := r.Scenario(featureScenario)
	if s == nil || len(s.Cells) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\nThe numbers of `%s`, and the others' divided by them in the same round.\n\n", s.Title, s.Text, s.Base)
	for i := range s.Cells {
		c := &s.Cells[i]
		header := []string{c.Label}
		for _, m := range s.Metrics {
			if m.Ratio {
				header = append(header, m.Title)
			}
		}
		var rows [][]string
		for _, rival := range s.Rivals {
			row := []string{"`" + rival + "`"}
			for _, m := range s.Metrics {
				if m.Ratio {
					row = append(row, c.show(rival, s.Base, m, rival != s.Base))
				}
			}
			rows = append(rows, row)
		}
		WriteTable(b, header, rows)
		b.WriteString("\n")
	}
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

// floorNames are the relay that only passes bytes on, and the direct connection.
var floorNames = []string{cRelay, "direct"}

// better lists where a rival is better in every round, as in "nginx: `relay` CPU (500 x 1 KiB) 0.95", and the same for the floors. Where a
// scenario has one load, it is not named.
func (r *Report) better() (rivals, floors []string) {
	where := map[string][]string{}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, m := range s.Metrics {
			if !m.Ratio || s.Base != r.Base || s.Name == featureScenario {
				continue
			}
			for _, rival := range s.Rivals {
				for k := range s.Cells {
					c := &s.Cells[k]
					ratios := c.Ratios(rival, s.Base, m.Key)
					if ratios.Count > 1 && !c.overloaded(rival) && ((m.Higher && ratios.Min > 1) || (!m.Higher && ratios.Max < 1)) {
						at := ""
						if len(s.Cells) > 1 {
							at = " (" + c.Label + ")"
						}
						where[rival] = append(where[rival], fmt.Sprintf("`%s` %s%s %.2f", s.Name, m.Title, at, ratios.Median))
					}
				}
			}
		}
	}
	for _, rival := range slices.Sorted(maps.Keys(where)) {
		text := rival + ": " + strings.Join(where[rival], ", ")
		switch {
		case strings.HasPrefix(rival, ours):
		case slices.Contains(floorNames, rival):
			floors = append(floors, text)
		default:
			rivals = append(rivals, text)
		}
	}
	return rivals, floors
}
