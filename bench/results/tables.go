package results

import (
	"fmt"
	"strings"
)

// tables writes a scenario's tables in Markdown. With several loads, each metric has a table with a column for each load. With one
// load, there is one table with a column for each metric.
func (s *Scenario) tables(b *strings.Builder) {
	if s.Failed != "" {
		fmt.Fprintf(b, "It failed: %s\n\n", s.Failed)
	}
	switch {
	case len(s.Cells) == 0:
	case len(s.Cells) == 1:
		s.narrow(b, &s.Cells[0])
	default:
		s.wide(b)
	}
	if s.Name == tailScenario {
		s.besideBest(b)
	}
}

// wide writes a table for each metric, after a table for each ratio.
func (s *Scenario) wide(b *strings.Builder) {
	for _, ratios := range []bool{true, false} {
		for _, m := range s.Metrics {
			if ratios && !m.Ratio {
				continue
			}
			title, header := m.Title, []string{"rival"}
			if ratios {
				title = "Ratio to " + s.Base + ": " + m.Title
			}
			for _, c := range s.Cells {
				header = append(header, c.Label)
			}
			var rows [][]string
			for _, rival := range s.Rivals {
				if ratios && rival == s.Base {
					continue
				}
				row := []string{rival}
				for i := range s.Cells {
					row = append(row, s.Cells[i].show(rival, s.Base, m, ratios))
				}
				rows = append(rows, row)
			}
			fmt.Fprintf(b, "**%s**\n\n", title)
			WriteTable(b, header, rows)
			b.WriteString("\n")
		}
	}
	s.footnotes(b)
}

// besideBest writes a table of wsbouncer's latencies under each load, divided by those of the best rival.
func (s *Scenario) besideBest(b *strings.Builder) {
	header, rows := []string{"wsbouncer / the best rival"}, make([][]string, len(s.Cells))
	for _, m := range s.Metrics {
		if !strings.HasSuffix(m.Key, "_ms") {
			continue
		}
		header = append(header, m.Title)
		for i := range s.Cells {
			c, text := &s.Cells[i], "-"
			if best := c.best(s.Rivals, m.Key); best != "" {
				text = c.Ratios(ours, best, m.Key).Text(2) + " " + best
			}
			rows[i] = append(rows[i], text)
		}
	}
	for i, c := range s.Cells {
		rows[i] = append([]string{c.Label}, rows[i]...)
	}
	WriteTable(b, header, rows)
	b.WriteString("\n")
}

// narrow writes one table for all metrics of one load.
func (s *Scenario) narrow(b *strings.Builder, c *Cell) {
	header := []string{"rival"}
	for _, m := range s.Metrics {
		header = append(header, m.Title)
		if m.Ratio {
			header = append(header, "/ "+s.Base)
		}
	}
	var rows [][]string
	for _, rival := range s.Rivals {
		row := []string{rival}
		for _, m := range s.Metrics {
			row = append(row, c.show(rival, s.Base, m, false))
			if m.Ratio {
				row = append(row, c.show(rival, s.Base, m, true))
			}
		}
		rows = append(rows, row)
	}
	WriteTable(b, header, rows)
	b.WriteString("\n")
	s.footnotes(b)
}

// overloadMark follows the number of a program that could not carry the load.
const overloadMark = " *"

// show returns a rival's cell of a table.
func (c *Cell) show(rival, base string, m Metric, ratio bool) string {
	spread, digits := c.Values(rival, m.Key), m.Digits
	if ratio {
		spread, digits = c.Ratios(rival, base, m.Key), 2
	}
	t := c.trouble(rival)
	if spread.Count == 0 {
		return t.word()
	}
	text := spread.Text(digits)
	if t.overload != "" {
		text += overloadMark
	}
	if t.failures > 0 {
		text += fmt.Sprintf(", failed in %d of %d", t.failures, t.runs)
	}
	return text
}

// footnotes says why a rival has no numbers, or numbers that do not compare with the others'.
func (s *Scenario) footnotes(b *strings.Builder) {
	said := map[string]bool{}
	say := func(format string, args ...any) {
		note := fmt.Sprintf(format, args...)
		if !said[note] {
			said[note] = true
			fmt.Fprintf(b, "- %s\n", strings.ReplaceAll(note, "|", "/"))
		}
	}
	for _, rival := range s.Rivals {
		for i := range s.Cells {
			c := &s.Cells[i]
			t := c.trouble(rival)
			if t.skipped != "" {
				say("%s, skipped: %s", rival, strings.TrimPrefix(t.skipped, "skipped: "))
			}
			if t.failed != "" {
				say("%s, failed with %s: %s", rival, c.Label, t.failed)
			}
			if t.overload != "" {
				say("* %s with %s: %s", rival, c.Label, t.overload)
			}
		}
	}
	if len(said) > 0 {
		b.WriteString("\n")
	}
}

// WriteTable writes a table in Markdown. Rows that are too short end with empty cells.
func WriteTable(b *strings.Builder, header []string, rows [][]string) {
	line := func(cells []string) {
		b.WriteString("|")
		for i := range header {
			cell := ""
			if i < len(cells) {
				cell = strings.ReplaceAll(cells[i], "|", "/")
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	line(header)
	b.WriteString("|" + strings.Repeat(" --- |", len(header)) + "\n")
	for _, row := range rows {
		line(row)
	}
}
