package results

import (
	"fmt"
	"strings"
	"time"
)

// Tables returns all numbers without plots, for a terminal.
func (r *Report) Tables() string {
	var b strings.Builder
	r.conclusions(&b, true)
	r.versions(&b)
	b.WriteString("# All numbers\n\nMedian of all rounds (minimum - maximum). A ratio compares two runs of the same round; its median is the median of the rounds' ratios.\n\n")
	r.scenarios(&b)
	return b.String()
}

// Markdown returns the page: the conclusions without all numbers. It refers to drawings in a folder img and to benchmarks.json, both next to it.
func (r *Report) Markdown(drawn []Drawing) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nMade by `%s`, which repeats all measurements. Do not edit. [benchmarks.json](benchmarks.json) has all numbers of this run, which\n"+
		"`make bench BENCH_FLAGS='-from docs/internals/benchmarks.json'` prints as tables, and versions.\n"+
		"[bench/README.md](../../bench/README.md) describes the scenarios, the rivals and the method.\n\n", r.Command)
	if r.Plan != "whole" {
		fmt.Fprintf(&b, "**This run did not measure the whole plan (%s): draw no other conclusions from it.**\n\n", r.Plan)
	}
	r.facts(&b)
	r.conclusions(&b, false)
	for _, d := range drawn {
		fmt.Fprintf(&b, "![%s](img/%s)\n\n", d.Title, d.File)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// facts says where and when it was measured.
func (r *Report) facts(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "- Date: %s; it took %s\n", r.Time.Format("2006-01-02 15:04 UTC"), time.Duration(r.Took*float64(time.Second)).Round(time.Second))
	if r.Commit != "" {
		fmt.Fprintf(b, "- Commit: %s\n", r.Commit)
	}
	fmt.Fprintf(b, "- Machine: %d processors (%s), %.0f GiB, %s, %s, %s\n", m.Processors, m.Model, m.Memory, m.Kernel, m.System, m.Go)
	b.WriteString("- Load generator, proxy and backends share the processors and use the loopback interface\n")
	if o := r.others(); o.Count > 0 {
		fmt.Fprintf(b, "- Everything else on the machine used %.2f processors (median of all runs; maximum %.2f); trust the numbers only if this is near 0\n", o.Median, o.Max)
	}
	if r.Interrupted != "" {
		fmt.Fprintf(b, "- %s\n", r.Interrupted)
	}
	b.WriteString("\n")
}

// others returns how many processors everything else used, in all runs.
func (r *Report) others() Spread {
	var all []float64
	for _, s := range r.Scenarios {
		for _, c := range s.Cells {
			for _, round := range c.Rounds {
				for _, run := range round {
					if v, ok := run.Values["others"]; ok {
						all = append(all, v)
					}
				}
			}
		}
	}
	return NewSpread(all)
}

// conclusions writes what a reader needs first; in full, also what was measured for each budget, and where the floors are better.
func (r *Report) conclusions(b *strings.Builder, full bool) {
	fmt.Fprintf(b, "## In short\n\nMedians of all rounds: the number of %s (with the extremes), and each rival's divided by it in the same round. Above 1, the rival needs more.\n"+
		"An asterisk: the program could not carry that load.\n\n", r.Base)
	r.summary(b)
	if !full {
		r.features(b) // in full, it is among all numbers
	}
	r.budgets(b, full)
	b.WriteString("## Where a rival is better\n\n")
	rivals, floors := r.better()
	list(b, "In every round of this run (ratio):", rivals)
	if len(rivals) == 0 {
		fmt.Fprintf(b, "No number of any rival was better than that of %s in every round.\n\n", r.Base)
	}
	if full {
		list(b, "The floors, which do not parse, check or pool anything:", floors)
	}
}

// budgets writes a table of the budgets that were not met, with the worst place of each, and counts the others; in full, it lists them with
// what was measured, and each place.
func (r *Report) budgets(b *strings.Builder, full bool) {
	b.WriteString("## Budgets\n\nA budget is met or missed where all rounds are on one side of its limit. Else it is undecided.\n\n")
	if r.Plan == "whole" {
		b.WriteString("[performance.md](performance.md#missed-budgets) explains those that were missed.\n\n")
	}
	var rows [][]string
	var kept, absent []string
	for _, v := range r.Judge() {
		text := v.Budget
		if full && v.Measured != "" {
			text += ": " + v.Measured
		}
		switch {
		case v.Verdict == met:
			kept = append(kept, text)
		case v.Verdict != notMeasured:
			rows = append(rows, []string{v.Budget, v.Verdict, v.Measured, v.Where})
		case r.Plan == "whole" || v.Measured != "": // other plans measure few of the budgets
			absent = append(absent, text)
		}
	}
	if len(rows) > 0 {
		header := []string{"budget", "verdict", "measured", "where"}
		if !full {
			header = header[:3]
		}
		WriteTable(b, header, rows)
		b.WriteString("\n")
	}
	if full {
		list(b, "Met:", kept)
		list(b, "Not measured:", absent)
	} else if len(kept)+len(absent) > 0 {
		fmt.Fprintf(b, "Met: %d. Not measured: %d.\n\n", len(kept), len(absent))
	}
	if len(rows)+len(kept)+len(absent) == 0 {
		b.WriteString("None was measured.\n\n")
	}
}

// list writes a list below a title, unless it is empty.
func list(b *strings.Builder, title string, all []string) {
	if len(all) > 0 {
		fmt.Fprintf(b, "%s\n\n- %s\n\n", title, strings.Join(all, "\n- "))
	}
}

// scenarios writes the tables of all scenarios.
func (r *Report) scenarios(b *strings.Builder) {
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		fmt.Fprintf(b, "## %s\n\n%s", s.Title, s.Text)
		rounds := 0
		for _, c := range s.Cells {
			rounds = max(rounds, len(c.Rounds))
		}
		fmt.Fprintf(b, " Rounds: %d. (`-scenario %s`)\n\n", rounds, s.Name)
		s.tables(b)
	}
}

// versions names the rivals' versions.
func (r *Report) versions(b *strings.Builder) {
	b.WriteString("## Versions\n\n")
	for _, rival := range r.Rivals {
		version := rival.Version
		if rival.Missing != "" {
			version = "skipped: " + rival.Missing
		}
		fmt.Fprintf(b, "- %s: %s\n", rival.Name, version)
	}
	b.WriteString("\n")
}
