package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// answers counts the responses to the upgrade requests of hostile clients. Its methods may be called from any goroutine.
type answers struct {
	mu     sync.Mutex
	counts map[string]map[string]int // guarded by mu: by scenario and answer
}

func (a *answers) count(scenario, status string) {
	if status = strings.TrimPrefix(status, "HTTP/1.1 "); status == "" {
		status = "none"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = make(map[string]map[string]int)
	}
	if a.counts[scenario] == nil {
		a.counts[scenario] = make(map[string]int)
	}
	a.counts[scenario][status]++
}

// tallied returns the counts as text, sorted by key.
func tallied(counts map[string]int) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s: %d", key, counts[key]))
	}
	return strings.Join(all, ", ")
}

// report writes the report of the run. It returns ErrFound if there are findings.
func (r *run) report() error {
	out := r.options.Out
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nSERVICE\tSESSIONS\tCOMPLETED\tREFUSED\tFAILED\tLOST\tREPEATED\tFOREIGN\tHOSTILE: UPGRADES\tPER SECOND\tAT ONCE\tFAILURES")
	sessions := 0
	for _, p := range r.proxies {
		for _, s := range r.services[p] {
			h := &s.report
			sessions += h.Sessions
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", s.name, h.Sessions, h.Completed, h.Refused+h.Busy, h.Failed(), h.Lost, h.Twice, h.Leaks)
			if s.hostile == nil {
				fmt.Fprint(table, "-\t-\t-\t")
			} else {
				seen := s.hostile.read()
				fmt.Fprintf(table, "%d\t%d\t%d\t", seen.attempts, seen.burst, seen.peak)
			}
			fmt.Fprintln(table, tallied(h.Errors))
		}
	}
	_ = table.Flush()
	fmt.Fprintln(out)
	r.answers.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(r.answers.counts)) {
		fmt.Fprintf(out, "hostile clients %s: %s\n", name, tallied(r.answers.counts[name]))
	}
	r.answers.mu.Unlock()
	found := r.ledger.findings()
	kinds := tellFindings(out, found)
	fmt.Fprintf(out, "\n%d sessions, seed %d: ", sessions, r.options.Seed)
	if len(found) == 0 {
		fmt.Fprintln(out, "no result on a healthy server was lost, repeated or foreign, and nothing was left over")
		return nil
	}
	fmt.Fprintf(out, "%d kinds of findings\n", kinds)
	return fmt.Errorf("%w: %d kinds of findings with seed %d", ErrFound, kinds, r.options.Seed)
}

// tellFindings writes each kind of finding once: where and how often it happened, and the first one in full.
func tellFindings(out io.Writer, found []finding) (kinds int) {
	told := make(map[string]bool)
	for _, first := range found {
		if told[first.kind] {
			continue
		}
		told[first.kind] = true
		var places []string
		for _, f := range found {
			if f.kind == first.kind {
				places = append(places, fmt.Sprintf("%s %d", f.place, f.times))
			}
		}
		fmt.Fprintf(out, "\nFOUND %s\n  how often: %s\n  the first: %s, %s\n", first.kind, strings.Join(places, ", "), first.place, strings.TrimSpace(first.text))
		for _, e := range first.events {
			fmt.Fprintln(out, "    |", e)
		}
	}
	return len(told)
}
