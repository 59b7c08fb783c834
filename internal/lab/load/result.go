package load

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

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
	// Transcript holds the final texts of the first complete session with audio; nil for none.
	Transcript []string
}

// TargetResult is the result for one target.
type TargetResult struct {
	URL string
	Figures
}

// Figures are the counts and measurements. They are of the whole run unless they say otherwise. In JSON, they lack those times and counts that package
// report adds.
type Figures struct {
	// Connections is the number of clients that the options ask for, Connected is how many of them connected, and
	// ConnectFailures is how many could not connect their first session. The others were still connecting when the run was
	// ended.
	Connections     int `json:"connections"`
	Connected       int `json:"connected"`
	ConnectFailures int `json:"connect_failures"`
	// AllConnected is the time until the last client was connected, and LastFirstEcho the time until the last of the first
	// echoes was complete. Both count from when clients began to connect.
	AllConnected  time.Duration `json:"-"`
	LastFirstEcho time.Duration `json:"-"`

	// Sent and Received count messages of the steady part and their correct echoes. They leave out the first message of a
	// session, which the client sends as soon as it is connected. With audio, they leave it out only in a client's first session.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// MessagesPerSecond is the rate of correct echoes during the steady part, without those that came after its end.
	MessagesPerSecond float64 `json:"messages_per_second"`
	// Unsent counts messages that were due but could not be sent in time: the load was more than the server could take or
	// the load generator could send. Latency does not include them.
	Unsent int64 `json:"unsent"`
	// Lost counts messages, the first of a session included, whose echo never came, or came out of order, on connections
	// that did not fail.
	Lost int64 `json:"lost"`
	// Mixed counts wrong messages: altered, another client's, or received twice.
	Mixed int64 `json:"mixed"`
	// Abandoned counts messages, the first of a session included, whose echo had not come when their connection failed.
	Abandoned int64 `json:"abandoned"`

	Sessions

	// Failed counts connections that ended before the client wanted them to.
	Failed int64 `json:"failed"`
	// Partials and Finals count the answers of a speech server: those that may still change, and those that are final.
	Partials int64 `json:"-"`
	Finals   int64 `json:"-"`
	// Errors counts errors by kind.
	Errors map[string]int64 `json:"errors"`
	// CloseCodes counts the ended connections by the server's close code, whichever side closed first (RFC 6455, section
	// 7.4.1: 1005 is a close without a code, 1006 an end without a close).
	CloseCodes map[frame.CloseCode]int64 `json:"close_codes"`

	// Latency is the time from when a message was due until its echo was complete.
	Latency Times `json:"latency_ms"`
	// Connect is the time from when a client should have connected until it was connected, and FirstEcho until its first echo
	// was complete. Both cover only clients' first sessions.
	Connect   Times `json:"connect_ms"`
	FirstEcho Times `json:"first_echo_ms"`
	// ConnectAgain is the time from when a further session began to dial until it was connected, and ReplyAgain until its
	// first reply was complete. With audio, ReplyAgain leaves out the wait for the client's next turn.
	ConnectAgain Times `json:"connect_again_ms"`
	ReplyAgain   Times `json:"first_echo_again_ms"`
	// Final is the time from when the end of the audio was due until the final answer was complete.
	Final Times `json:"-"`
}

// Sessions counts sessions by how they ended: Begun is the sum of ConnectFailures, Failed and the other counts here.
type Sessions struct {
	// Begun counts all sessions that clients began.
	Begun int64 `json:"sessions_begun"`
	// Complete counts sessions that ended in order, before the run did.
	Complete int64 `json:"sessions"`
	// Refused counts sessions that could not connect, without clients' first sessions.
	Refused int64 `json:"sessions_refused"`
	// Cut counts sessions that the end of the run ended.
	Cut int64 `json:"sessions_cut"`
	// SessionsPerSecond is the rate of complete sessions during the steady part.
	SessionsPerSecond float64 `json:"sessions_per_second"`
}

// fill fills in the result from the collected counts.
func (r *run) fill(result *Result) {
	result.fill(r.Connections, r.seen.total)
	if first := r.transcript.Load(); first != nil {
		result.Transcript = *first
	}
	result.targets(r.URLs)
	for i := range result.Targets {
		clients := (r.Connections + len(r.targets) - 1 - i) / len(r.targets)
		result.Targets[i].fill(clients, r.seen.byTarget[i])
	}
}

// targets makes room for the figures of each target.
func (r *Result) targets(urls []string) {
	for _, url := range urls[len(r.Targets):] {
		r.Targets = append(r.Targets, TargetResult{URL: url})
	}
}

// fill fills in the figures from the counts.
func (f *Figures) fill(connections int, c *counts) {
	f.Connections, f.Connected, f.ConnectFailures = connections, int(c.Connected), int(c.ConnectFailures)
	f.AllConnected, f.LastFirstEcho = time.Duration(c.LastConnect), time.Duration(c.LastEcho)
	f.Sent, f.Received, f.Unsent = c.Sent, c.Received, c.Unsent
	f.Lost, f.Mixed, f.Abandoned, f.Failed = c.Lost, c.Mixed, c.Abandoned, c.Failed
	f.Begun, f.Complete, f.Refused, f.Cut = c.Begun, c.Complete, c.Refused, c.Cut
	f.Partials, f.Finals = c.Partials, c.Finals
	f.Errors, f.CloseCodes = maps.Clone(c.Errors), maps.Clone(c.Closes)
	f.Latency, f.Connect, f.FirstEcho = c.Latency, c.Connect, c.FirstEcho
	f.ConnectAgain, f.ReplyAgain, f.Final = c.ConnectAgain, c.ReplyAgain, c.Final
}

// setRates fills in the rates of the steady part, from the counts at its beginning and its end.
func (r *Result) setRates(urls []string, before, after []numbers) {
	r.targets(urls)
	seconds := r.Duration.Seconds()
	for i := range after {
		f := &r.Targets[i].Figures
		f.MessagesPerSecond = float64(after[i].Received-before[i].Received) / seconds
		f.SessionsPerSecond = float64(after[i].Complete-before[i].Complete) / seconds
		r.MessagesPerSecond += f.MessagesPerSecond
		r.SessionsPerSecond += f.SessionsPerSecond
	}
}

// Failures returns how many sessions failed or could not connect.
func (f *Figures) Failures() int64 { return int64(f.ConnectFailures) + f.Refused + f.Failed }

// Err returns an error if the server served the load badly: it lost or mixed up a message, a connection failed, a client
// could not connect again, or no client could connect.
func (r *Result) Err() error {
	if r.Connected == 0 {
		return errors.New("no connection could be made")
	}
	var wrong []string
	for _, w := range []struct {
		n    int64
		what string
	}{{r.Lost, "messages lost"}, {r.Mixed, "messages mixed up"}, {r.Failed, "connections failed"}, {r.Refused, "could not connect again"}} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}
