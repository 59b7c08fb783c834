package failoverproof

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Report is the result of a proof.
type Report struct {
	Protocol string
	Seed     uint64
	Duration time.Duration
	// Sessions have come to their end; Failed are those that did not end as they should, by how they ended.
	Sessions int
	Failed   map[string]int
	// Events is what happened to servers, by kind.
	Events map[Kind]int
	// Chunks of audio were sent, and Finals came.
	Chunks, Finals int
	Faults         Faults
	// Ordered is what came of the moves of sessions that an operator ordered.
	Ordered map[string]int
	// Moved and NotMoved are the sessions that continued on another server, and that could not.
	Moved, NotMoved uint64
	// Unassured says how many sessions could no longer be moved, and why; empty for none.
	Unassured string
	// Slowest is the longest time in which a session heard nothing.
	Slowest time.Duration
	// Cuts is how often connections were cut, and Returns what came of that. Redirected counts the clients that were sent to another proxy.
	Cuts       map[Cut]int
	Returns    returns
	Redirected int64
	// AskedEvents and AskedCuts are how many events and cuts there were to be.
	AskedEvents, AskedCuts int
	// Traces are of the first sessions with faults.
	Traces []string
}

// maxTraces is how many traces a report has.
const maxTraces = 3

// take adds a session that has ended, with an error if it did not end as it should.
func (r *Report) take(t *talk, err error) {
	r.Sessions++
	r.Chunks += t.speech.made
	r.Finals += t.judge.finals
	for fault, n := range t.judge.faults {
		r.Faults[fault] += n
	}
	r.Slowest = max(r.Slowest, t.slowest)
	if c, ok := t.conn.(*returning); ok {
		r.takeReturns(c)
	}
	if err != nil {
		if r.Failed == nil {
			r.Failed = make(map[string]int)
		}
		r.Failed[err.Error()]++
	}
	if (err != nil || t.judge.faults.Sum() > 0) && len(r.Traces) < maxTraces {
		r.Traces = append(r.Traces, fmt.Sprintf("session %d:\n%s", t.session, t.trace.String()))
	}
}

// takeReturns adds what became of a client.
func (r *Report) takeReturns(c *returning) {
	r.Returns.add(&c.returns)
	r.Redirected += c.redirected.Load()
}

// FailedSessions returns how many sessions did not end as they should.
func (r *Report) FailedSessions() int { return kit.Sum(r.Failed) }

// EventCount returns how many events there were.
func (r *Report) EventCount() int { return kit.Sum(r.Events) }

// leastCut is the part of the cuts, 1/leastCut, that must be made. On a busy machine, clients are away for longer, and cannot be cut then.
const leastCut = 4

// Err returns an error with traces if anything is wrong, an error without them if too little happened, and nil otherwise.
func (r *Report) Err() error {
	cuts, refused := kit.Sum(r.Cuts), kit.Sum(r.Ordered)-r.Ordered[api.MoveDone]-r.Ordered[api.MoveEnded]
	switch {
	case r.Faults.Sum() > 0 || len(r.Failed) > 0 || r.Returns.refused > 0:
		return fmt.Errorf("%s%s", r.String(), strings.Join(r.Traces, ""))
	case r.Finals == 0:
		return errors.New(r.Protocol + ": no final result came, so nothing was proven")
	case r.AskedEvents > 0 && r.EventCount() == 0:
		return fmt.Errorf("%s: none of %d events happened to a server, so nothing was proven", r.Protocol, r.AskedEvents)
	case r.Events[Move] > 0 && r.Ordered[api.MoveDone] == 0 && (refused > 0 || len(r.Events) == 1): // among other events, a move may find no session
		return fmt.Errorf("%s: none of the sessions moved that %d orders were about (%s), so nothing was proven", r.Protocol, r.Events[Move], kit.Tallied(r.Ordered))
	case cuts*leastCut < r.AskedCuts:
		return fmt.Errorf("%s: only %d of %d cuts were made, so nothing was proven", r.Protocol, cuts, r.AskedCuts)
	case cuts > 0 && len(r.Returns.times) == 0:
		return errors.New(r.Protocol + ": no client came back, so nothing was proven")
	}
	return nil
}

// describeCuts writes a table of what became of clients whose connections were cut.
func (r *Report) describeCuts(b *strings.Builder) {
	fmt.Fprintf(b, "  %-12s %8s %8s %10s %10s\n", "cut", "times", "resumed", "back, p50", "back, p95")
	row := func(name string, cuts int, times []time.Duration) {
		slices.Sort(times)
		fmt.Fprintf(b, "  %-12s %8d %8d %10v %10v\n", name, cuts, len(times), kit.Quantile(times, 0.5).Round(time.Millisecond),
			kit.Quantile(times, 0.95).Round(time.Millisecond))
	}
	var all []time.Duration
	for _, kind := range cuts {
		row(string(kind), r.Cuts[kind], r.Returns.times[kind])
		all = append(all, r.Returns.times[kind]...)
	}
	row("all", kit.Sum(r.Cuts), all)
	if begun := r.Returns.begun; len(begun) > 0 {
		slices.Sort(begun)
		fmt.Fprintf(b, "  new sessions, since the old one was gone: %d, known after %v (p50) and %v (longest)\n", len(begun),
			kit.Quantile(begun, 0.5).Round(time.Millisecond), kit.Quantile(begun, 1).Round(time.Millisecond))
	}
	fmt.Fprintf(b, "  resumed without a cut %d, refused %d, redirected %d; messages sent again %d, got again %d\n",
		r.Returns.unforced, r.Returns.refused, r.Redirected, r.Returns.sentAgain, r.Returns.gotAgain)
}

// String describes the report in a few lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: seed %d, %v: %d events, %d sessions, %d chunks, %d final results; moved %d times, %d times without success; longest silence %v\n",
		r.Protocol, r.Seed, r.Duration.Round(time.Millisecond), r.EventCount(), r.Sessions, r.Chunks, r.Finals, r.Moved, r.NotMoved,
		r.Slowest.Round(time.Millisecond))
	if len(r.Events) > 0 {
		b.WriteString("  events:")
		for _, kind := range slices.Sorted(maps.Keys(r.Events)) {
			fmt.Fprintf(&b, " %s %d", kind, r.Events[kind])
		}
		b.WriteByte('\n')
	}
	for _, what := range slices.Sorted(maps.Keys(r.Ordered)) {
		fmt.Fprintf(&b, "  moves ordered: %s: %d\n", what, r.Ordered[what])
	}
	if r.Unassured != "" {
		fmt.Fprintf(&b, "  not recoverable:%s\n", r.Unassured)
	}
	if len(r.Cuts) > 0 {
		r.describeCuts(&b)
	}
	b.WriteString("  faults:")
	for fault, n := range r.Faults {
		fmt.Fprintf(&b, " %s %d,", faultNames[fault], n)
	}
	fmt.Fprintf(&b, " failed sessions %d\n", r.FailedSessions())
	for _, kind := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, "  failed: %s: %d\n", kind, r.Failed[kind])
	}
	return b.String()
}
