//go:build linux

package fleetproof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Report is the result of a proof.
type Report struct {
	Seed       uint64
	Duration   time.Duration
	Servers    []string // one line for each, and what it cost to ask
	Sessions   []string
	Violations []kit.Violation
	Directory  string // with the proxies' logs; it stays if there are violations

	results map[string]*tally // by kind of events
}

func (r *proof) report(took time.Duration) *Report {
	return &Report{
		Seed: r.options.Seed, Duration: took, Servers: r.watcher.summary(), Sessions: r.crowd.summary(), Violations: r.journal.Found(),
		Directory: r.options.Directory, results: r.results,
	}
}

// Err returns an error if something happened that must not happen.
func (r *Report) Err() error { return kit.Err(r.Violations) }

// String returns the report in lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %6s %10s %10s %8s %8s\n", "event", "count", "median", "most", "stated", "cut")
	for _, kind := range slices.Sorted(maps.Keys(r.results)) {
		t, median, most := r.results[kind], "-", "-"
		if slices.Sort(t.took); len(t.took) > 0 {
			median, most = seconds(kit.Quantile(t.took, 0.5)), seconds(kit.Quantile(t.took, 1))
		}
		fmt.Fprintf(&b, "%-20s %6d %10s %10s %8s %8d\n", kind, t.events, median, most, seconds(t.limit), t.cut)
	}
	b.WriteString("(median and most: time until all places of all servers were in use; cut: sessions that ended with their killed proxy)\n\n")
	fmt.Fprintf(&b, "%s\n\n%s\n", strings.Join(r.Servers, "\n"), strings.Join(r.Sessions, "\n"))
	kit.Tell(&b, r.Violations)
	if len(r.Violations) > 0 {
		fmt.Fprintf(&b, "\nthe proxies' logs are in %s\n", r.Directory)
	}
	fmt.Fprintf(&b, "\n%d violations in %v, seed %d\n", len(r.Violations), r.Duration.Round(time.Second), r.Seed)
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
