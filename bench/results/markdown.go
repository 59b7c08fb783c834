package results

import (
	"fmt"
	"strings"
	"time"
)

// Tables returns the report without plots, for a terminal.
func (r *Report) Tables() string {
	var b strings.Builder
	r.conclusions(&b)
	r.scenarios(&b)
	return b.String()
}

// Markdown returns the whole report. It refers to drawings in a folder img next to it.
func (r *Report) Markdown(drawn []Drawing) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nMade by `%s`, which repeats all measurements ([bench/README.md](../../bench/README.md)). Do not edit.\n\n", r.Command)
	if r.Plan != "whole" {
		fmt.Fprintf(&b, "**This run did not measure the whole plan (%s): draw no other conclusions from it.**\n\n", r.Plan)
	}
	r.facts(&b)
	r.conclusions(&b)
	for _, d := range drawn {
		fmt.Fprintf(&b, "![%s](img/%s)\n\n", d.Title, d.File)
	}
	b.WriteString("# All numbers\n\nMedian of all rounds (minimum - maximum). A ratio compares two runs of the same round; its median is the median of the rounds' ratios.\n\n")
	r.scenarios(&b)
	r.rivals(&b)
	return b.String()
}

// facts says where and when it was measured.
func (r *Report) facts(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "- Date: %s; it took %s\n", r.Time.Format("2006-01-02 15:04 UTC"), time.Duration(r.Took*float64(time.Second)).Round(time.Second))
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

// conclusions writes what a reader needs first.
func (r *Report) conclusions(b *strings.Builder) {
	fmt.Fprintf(b, "## In short\n\nEach rival's number divided by that of %s in the same round (median): above 1, the rival needs more. An asterisk: the rival could not carry that load.\n\n", r.Base)
	r.summary(b)
	b.WriteString("## Budgets\n\n")
	if r.Plan == "whole" {
		b.WriteString("[performance.md](performance.md) says why a budget is missed, and what was tried.\n\n")
	}
	var rows [][]string
	for _, v := range r.Judge() {
		if r.Plan == "whole" || v.Measured != "" { // other plans measure few of the budgets
			rows = append(rows, []string{v.Budget, v.Verdict, v.Measured})
		}
	}
	if len(rows) == 0 {
		b.WriteString("None was measured.\n")
	} else {
		WriteTable(b, []string{"budget", "verdict", "measured"}, rows)
	}
	b.WriteString("\n## Where a rival is better\n\n")
	rivals, floors := r.better()
	list := func(title, none string, all []string) {
		if len(all) == 0 {
			title = none
		}
		if title != "" {
			fmt.Fprintf(b, "%s\n\n", title)
		}
		for _, text := range all {
			fmt.Fprintf(b, "- %s\n", text)
		}
		if len(all) > 0 {
			b.WriteString("\n")
		}
	}
	list("In every round of this run (ratio):", "No number of any rival was better than that of "+r.Base+" in every round.", rivals)
	list("The floors, which do not parse, check or pool anything:", "", floors)
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

// rivals lists the rivals.
func (r *Report) rivals(b *strings.Builder) {
	b.WriteString("## The rivals\n\n")
	var rows [][]string
	for _, rival := range r.Rivals {
		version := rival.Version
		if rival.Missing != "" {
			version = "skipped: " + rival.Missing
		}
		rows = append(rows, []string{rival.Name, rival.Title, version})
	}
	WriteTable(b, []string{"rival", "what it is", "version"}, rows)
	b.WriteString("\nTheir configurations and sources are in [bench/rivals](../bench/rivals) and [bench/relays](../bench/relays).\n")
}
