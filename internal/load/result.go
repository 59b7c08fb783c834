package load

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Result is what a run has shown.
type Result struct {
	// Figures are those of all targets together.
	Figures
	// Targets has the figures of each target, in the order of the options' URLs.
	Targets []TargetResult
	// Duration is the length of the steady part.
	Duration time.Duration
	// Interrupted tells that the run was ended before its time, by the context that it was given.
	Interrupted bool
	// Series has a point for each second or so, from when clients began to connect until all connections were closed. Its
	// points add up to the whole.
	Series []Point
	// Transcript holds the final texts of the first session with audio that was complete; nil for none.
	Transcript []string
}

// TargetResult is what a run has shown of one target.
type TargetResult struct {
	URL string
	Figures
}

// Figures is what was counted and measured. What does not say otherwise is of the whole run.
type Figures struct {
	// Connections is how many clients there were to be, Connected how many of them connected, and ConnectFailures how
	// many could not, at first; those missing were still connecting when the run was ended.
	Connections     int
	Connected       int
	ConnectFailures int
	// AllConnected is the time until the last of those that connected had done so, and LastFirstEcho the time until the
	// last of the first echoes was complete. Both count from when the first was to connect.
	AllConnected  time.Duration
	LastFirstEcho time.Duration

	// Sent and Received count messages of the steady part and their right echoes. A session's first message, sent when it
	// has connected, is not among them, except that those of audio from a client's second session on are.
	Sent     int64
	Received int64
	// MessagesPerSecond is the rate of right echoes during the steady part, without those that came after its end.
	MessagesPerSecond float64
	// Unsent counts messages that were due but could not be sent in time: the load was more than the server took, or than
	// the load generator could make. They are in no latency.
	Unsent int64
	// Lost counts messages, the first of a session included, whose echo never came, or came out of order, on connections
	// that did not fail.
	Lost int64
	// Mixed counts messages that were not what should have come: altered, another client's, or sent twice.
	Mixed int64
	// Abandoned counts messages, the first of a session included, whose echo had not come when their connection failed.
	Abandoned int64

	Sessions

	// Failed counts connections that ended before the client wanted them to.
	Failed int64
	// Partials and Finals count the answers of a speech server: those that may still change, and those that stand.
	Partials int64
	Finals   int64
	// Errors counts what went wrong by its kind.
	Errors map[string]int64
	// CloseCodes counts the ended connections by the code that the server closed them with, as answer to the client's
	// close or of its own accord (RFC 6455, section 7.4.1: 1005 is a close without a code, 1006 an end without a close).
	CloseCodes map[frame.CloseCode]int64

	// Latency is the time from when a message was due until its echo was complete.
	Latency Times
	// Connect is the time from when a client was to connect until it was connected, and FirstEcho until its first echo was
	// complete. Both are of clients' first sessions.
	Connect   Times
	FirstEcho Times
	// ConnectAgain is the time from the upgrade request, dialing included, of each further session until it was connected,
	// and ReplyAgain until its first reply was complete. With audio, the wait for the client's next turn is left out.
	ConnectAgain Times
	ReplyAgain   Times
	// Final is the time from when the end of the audio was due until the final answer was complete.
	Final Times
}

// Sessions says what became of sessions: Begun is ConnectFailures, Failed and all others here together.
type Sessions struct {
	// Begun counts the sessions that clients began, those they began with included.
	Begun int64
	// Complete counts sessions that ended in order, before the run did.
	Complete int64
	// Refused counts sessions that could not connect, those that clients began with left out.
	Refused int64
	// Cut counts sessions that the end of the run ended.
	Cut int64
	// SessionsPerSecond is the rate of complete sessions during the steady part.
	SessionsPerSecond float64
}

// fill fills in the result with what was collected.
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

// fill takes over what was counted.
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

// setRates fills in the rates of the steady part, from what was counted at its beginning and end.
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

// Failures returns how many sessions failed, or could not even connect.
func (f *Figures) Failures() int64 { return int64(f.ConnectFailures) + f.Refused + f.Failed }

// Err reports whether the server served the load badly: a message lost or mixed up, a connection failed or was refused later
// on, or none could be made.
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
