package load

import (
	"errors"
	"fmt"
	"time"
)

// Result is what a run has shown.
type Result struct {
	// Connections is how many clients there were to be, Connected how many of them connected, and ConnectFailures how
	// many could not.
	Connections     int
	Connected       int
	ConnectFailures int
	// Duration is the length of the steady part.
	Duration time.Duration
	// Sent and Received count messages of the steady part and their right echoes. A client's first message, sent when it
	// has connected, is not among them.
	Sent     int64
	Received int64
	// MessagesPerSecond is the rate of right echoes during the steady part, without those that came after its end.
	MessagesPerSecond float64
	// Unsent counts messages that were due but could not be sent in time: the load was more than the server took, or than
	// the load generator could make. They are in no latency.
	Unsent int64
	// Lost counts messages, the first of a client included, whose echo never came, or came out of order, on connections
	// that did not fail.
	Lost int64
	// Mixed counts messages that were not what should have come: altered, another client's, or sent twice.
	Mixed int64
	// Failed counts connections that ended before the load did.
	Failed int64
	// Audio is what only a load of audio has; nil for others.
	Audio *AudioResult
	// Errors counts what went wrong by its kind.
	Errors map[string]int64

	// Latency is the time from when a message was due until its echo was complete.
	Latency Times
	// Connect is the time from when a client was to connect until it was connected.
	Connect Times
	// FirstEcho is the time from when a client was to connect until its first echo was complete.
	FirstEcho Times
}

// AudioResult is what a load of audio has shown of the speech server's answers.
type AudioResult struct {
	Partials int64 // answers that may still change
	Finals   int64 // answers that stand
	Sessions int64 // recordings that were streamed from beginning to end
}

// fill takes over what was counted.
func (r *Result) fill(connections int, c *counts) {
	r.Connections, r.Connected, r.ConnectFailures = connections, c.Connected, c.ConnectFailures
	r.Sent, r.Received, r.Unsent = c.Sent, c.Received, c.Unsent
	r.Lost, r.Mixed, r.Failed, r.Errors = c.Lost, c.Mixed, c.Failed, c.Errors
	r.Latency, r.Connect, r.FirstEcho = c.Latency, c.Connect, c.FirstEcho
}

// Err tells whether the server served the load badly: a message lost or mixed up, a connection failed, or none made.
func (r *Result) Err() error {
	if r.Connected == 0 {
		return errors.New("no connection could be made")
	}
	if r.Lost+r.Mixed+r.Failed > 0 {
		return fmt.Errorf("%d messages lost, %d mixed up, %d connections failed", r.Lost, r.Mixed, r.Failed)
	}
	return nil
}
