package results

import (
	"fmt"
	"slices"
	"strings"
)

// The lines between which a README has numbers of a report.
const (
	numbersBegin = "<!-- make bench writes this -->\n\n"
	numbersEnd   = "\n<!-- until here -->\n"
)

// readmeRows are the rows of README's table: a metric in the cells of a scenario that have that many sessions, or in all.
var readmeRows = []struct {
	title         string
	scenario, key string
	unit          string
	sessions      []int
}{
	{"CPU per 1 KiB round trip, 500 to 9,000 sessions", relayScenario, "cpu_us", "µs", []int{500, 1000, 3000, 6000, 9000}},
	{"CPU per 1 KiB round trip, clients over TLS, 500 to 3,000 sessions", "tls", "cpu_us", "µs", []int{500, 1000, 3000}},
	{"memory with 3,000 sessions, pools included", relayScenario, "open_mb", "MiB", []int{3000}},
	{"first reply from a server 20 ms away", "start", "first_ms", "ms", nil},
	{"3,000 clients connect simultaneously: the last one's first echo", "burst", "last_echo_ms", "ms", nil},
}

// readmeRivals are the columns of README's table.
var readmeRivals = []struct{ name, title string }{{"nginx", "nginx"}, {"haproxy", "HAProxy"}, {"envoy", "Envoy"}}

// InReadme returns a README with the numbers of this report in the place of those that it has.
func (r *Report) InReadme(text string) (string, error) {
	before, rest, begins := strings.Cut(text, numbersBegin)
	_, after, ends := strings.Cut(rest, numbersEnd)
	if !begins || !ends {
		return "", fmt.Errorf("README.md: the lines %q and %q are missing, between which the benchmark's numbers stand", strings.TrimSpace(numbersBegin), strings.TrimSpace(numbersEnd))
	}
	return before + numbersBegin + r.numbers() + numbersEnd + after, nil
}

// numbers returns the text and the table in README.
func (r *Report) numbers() string {
	var b strings.Builder
	of := r.Time.Format("2006-01-02")
	if r.Commit != "" {
		of += ", commit " + r.Commit
	}
	fmt.Fprintf(&b, "From `make bench` (%s), with all programs on %d processors. Rivals' numbers are medians of\n"+
		"their ratio to wsbouncer in the same round: above 1, the rival needs more.\n\n", of, r.Machine.Processors)
	header := []string{"", ours}
	for _, rival := range readmeRivals {
		header = append(header, rival.title)
	}
	var rows [][]string
	marked := false
	for _, line := range readmeRows {
		s := r.Scenario(line.scenario)
		if s == nil {
			continue
		}
		in := func(rival string, number func(*Cell) Spread, digits int) (text, mark string) {
			var medians []float64
			for i := range s.Cells {
				c := &s.Cells[i]
				if n := number(c); n.Count > 0 && (line.sessions == nil || c.usual() && slices.Contains(line.sessions, c.Sessions)) {
					medians = append(medians, n.Median)
					if c.overloaded(rival) {
						mark, marked = overloadMark, true
					}
				}
			}
			return span(medians, digits), mark
		}
		number, mark := in(ours, func(c *Cell) Spread { return c.Values(ours, line.key) }, s.digits(line.key))
		row := []string{line.title, number + " " + line.unit + mark}
		for _, rival := range readmeRivals {
			ratio, mark := in(rival.name, func(c *Cell) Spread { return c.Ratios(rival.name, ours, line.key) }, 2)
			row = append(row, ratio+mark)
		}
		rows = append(rows, row)
	}
	WriteTable(&b, header, rows)
	if marked {
		b.WriteString("\nAn asterisk: the program could not carry all of these loads.\n")
	}
	return b.String()
}

// span shows the least and the largest of some numbers; a hyphen if there are none.
func span(numbers []float64, digits int) string {
	if len(numbers) == 0 {
		return "-"
	}
	least, most := fmt.Sprintf("%.*f", digits, slices.Min(numbers)), fmt.Sprintf("%.*f", digits, slices.Max(numbers))
	if least == most {
		return least
	}
	return least + " to " + most
}
