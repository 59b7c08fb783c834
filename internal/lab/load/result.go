package load

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Result is the result of a run.
type Result struct {
	// Figures are the sums over all targets.
	Figures
	// Targets has the figures of each target, in the order of the options' URLs.
	Targets []TargetResult
	// Duration is the length of the steady part.
	Duration time.Duration
	// Interrupted says that the context ended the run early.
	Interrupted bool
	// Series is the time series: one point for about each sampling interval, from when clients began to connect until all
	// connections were closed. Its points add up to the totals.
	Series []Point
	// Refusal is the error of the first client that could not connect; nil for none.
	Refusal error
	// Said is the error of the first session that failed by a message of its server; nil for none.
	Said error
	// Speech is what package streams measures besides; nil for a run of Run.
	Speech *Speech
}

// Nothing returns the result of a run that could not begin.
func Nothing(o Options) *Result {
	r := new(Result)
	r.fill(o.Connections, newCounts())
	r.targets(o.URLs)
	for i := range r.Targets {
		r.Targets[i].fill(ClientsOf(o.Connections, i, len(o.URLs)), newCounts())
	}
	return r
}

// ClientsOf returns how many of the clients have the i-th target.
func ClientsOf(connections, i, targets int) int { return (connections + targets - 1 - i) / targets }

// TargetResult is the result for one target.
type TargetResult struct {
	URL string
	Figures
}

// Figures are the counts and measurements. They are of the whole run unless they say otherwise. In JSON, they lack those times and counts that package
// report adds.
type Figures struct {
	// Connections is the number of clients that the options ask for. Those that neither connected nor failed to were still connecting when the run was
	// ended.
	Connections int `json:"connections"`
	// AllConnected is the time until the last client was connected, and LastFirstEcho the time until the last of the first
	// echoes was complete. Both count from when clients began to connect.
	AllConnected  time.Duration `json:"-"`
	LastFirstEcho time.Duration `json:"-"`

	Counts
	Distributions

	// MessagesPerSecond is the rate of correct echoes during the steady part, without those that came after its end.
	MessagesPerSecond float64 `json:"messages_per_second"`
	// SessionsPerSecond is the rate of complete sessions during the steady part.
	SessionsPerSecond float64 `json:"sessions_per_second"`
	// Errors counts errors by kind.
	Errors map[string]int64 `json:"errors"`
	// CloseCodes counts the ended connections by the server's close code, whichever side closed first (RFC 6455, section
	// 7.4.1: 1005 is a close without a code, 1006 an end without a close).
	CloseCodes map[frame.CloseCode]int64 `json:"close_codes"`
}

// fill fills in the result from the collected counts.
func (r *run) fill(result *Result) {
	result.fill(r.Connections, r.seen.total)
	result.targets(r.URLs)
	for i := range result.Targets {
		result.Targets[i].fill(ClientsOf(r.Connections, i, len(r.targets)), r.seen.byTarget[i])
	}
}

// targets makes room for the figures of each target.
func (r *Result) targets(urls []string) {
	for _, url := range urls[len(r.Targets):] {
		r.Targets = append(r.Targets, TargetResult{URL: secret.URL(url)})
	}
}

// fill fills in the figures from the counts.
func (f *Figures) fill(connections int, c *counts) {
	f.Connections, f.Counts, f.Distributions = connections, c.Counts, c.Distributions
	f.AllConnected, f.LastFirstEcho = time.Duration(c.lastConnect), time.Duration(c.lastEcho)
	f.Errors, f.CloseCodes = maps.Clone(c.Errors), maps.Clone(c.Closes)
}

// SetRates fills in the rates of the steady part, from the counts of the targets at its beginning and its end.
func (r *Result) SetRates(before, after []Counts) {
	for i := range after {
		r.setRate(&r.Targets[i].Figures, after[i].Received-before[i].Received, after[i].Complete-before[i].Complete)
	}
}

// setRate fills in the rates of a target, and adds them to those of all.
func (r *Result) setRate(f *Figures, received, complete int64) {
	seconds := r.Duration.Seconds()
	if seconds <= 0 {
		return
	}
	f.MessagesPerSecond, f.SessionsPerSecond = float64(received)/seconds, float64(complete)/seconds
	r.MessagesPerSecond += f.MessagesPerSecond
	r.SessionsPerSecond += f.SessionsPerSecond
}

// Err returns an error if the server served the load badly: it lost or mixed up a message, a connection failed, a client
// could not connect again, no client could connect, or a session had another text than one that was alone.
func (r *Result) Err() error {
	if r.Connected == 0 {
		return errors.New("no connection could be made")
	}
	var wrong []string
	for _, w := range []struct {
		n    int64
		what string
	}{{r.Lost, "messages lost"}, {r.Mixed, "messages mixed up"}, {r.Failed, "connections failed"}, {r.Refused, "could not connect again"}, {r.spoke().Other, "sessions with another text than alone"}} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}
