package hunt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Leak is a result that reached the wrong session.
type Leak struct {
	To      uint64 // the session that got it
	Of      uint64 // the session that it belongs to
	Message string // its beginning
	// ToTrace and OfTrace are what the two sessions sent and received.
	ToTrace, OfTrace string
}

// Report is the result of a hunt.
type Report struct {
	Protocol string
	Duration time.Duration
	counts

	// Leaks is the number of messages with the identity of another session.
	Leaks int
	// Found are the first leaks.
	Found []Leak
}

// counts are the counts of a worker.
type counts struct {
	// Sessions counts the sessions that began, and ByManner counts them by how they should end.
	Sessions int
	ByManner [manners]int
	// Refused counts sessions that were refused for lack of capacity: HTTP 503 or 429, or close code 1013.
	Refused int
	// Busy counts sessions that got the message or close code by which a full server refuses in its protocol. A proxy hides it.
	Busy int
	// Completed counts sessions that got their last result.
	Completed int
	// Mute counts completed sessions that sent audio and found nothing of it in their results.
	Mute int
	// Lost counts the results that cleanly ended sessions did not get, and Twice those that they got once too often. Both need
	// Options.Exact.
	Lost, Twice int
	// Messages counts received messages, and Checked those with an identity.
	Messages, Checked int
	// Sent counts sent messages.
	Sent int
	// Errors counts the other failed sessions by kind.
	Errors map[string]int
}

func (c *counts) add(other *counts) {
	c.Sessions += other.Sessions
	c.Refused += other.Refused
	c.Busy += other.Busy
	c.Completed += other.Completed
	c.Mute += other.Mute
	c.Lost += other.Lost
	c.Twice += other.Twice
	c.Messages += other.Messages
	c.Checked += other.Checked
	c.Sent += other.Sent
	for i, n := range other.ByManner {
		c.ByManner[i] += n
	}
	for kind, n := range other.Errors {
		c.Errors[kind] += n
	}
}

// Failed returns the number of sessions that failed.
func (c *counts) Failed() int { return kit.Sum(c.Errors) }

// Err returns an error with the first leak and the traces of both sessions, or nil if there is no leak.
func (r *Report) Err() error {
	if r.Leaks == 0 {
		return nil
	}
	l := r.Found[0]
	return fmt.Errorf("%s: %d leaks; the first: session %d got a result of session %d: %s\n%s%s",
		r.Protocol, r.Leaks, l.To, l.Of, l.Message, l.ToTrace, l.OfTrace)
}

// String describes the report in a few lines.
func (r *Report) String() string {
	var b strings.Builder
	seconds := max(r.Duration.Seconds(), 1e-9)
	fmt.Fprintf(&b, "%s: %d sessions in %v (%.0f/s), %d completed, %d refused, %d failed; %d messages received, %d with an identity; %d leaks\n",
		r.Protocol, r.Sessions, r.Duration.Round(time.Millisecond), float64(r.Sessions)/seconds,
		r.Completed, r.Refused, r.Failed(), r.Messages, r.Checked, r.Leaks)
	b.WriteString("  manners:")
	for i, n := range r.ByManner {
		fmt.Fprintf(&b, " %v %d", Manner(i), n)
	}
	b.WriteByte('\n')
	if r.Busy > 0 {
		fmt.Fprintf(&b, "  refused by the message of a full server: %d\n", r.Busy)
	}
	if r.Mute > 0 {
		fmt.Fprintf(&b, "  completed without a result of their own audio: %d\n", r.Mute)
	}
	if r.Lost > 0 || r.Twice > 0 {
		fmt.Fprintf(&b, "  results lost: %d, received twice: %d\n", r.Lost, r.Twice)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, "  failed: %s: %d\n", kind, r.Errors[kind])
	}
	return b.String()
}

// Kinds of failures without an HTTP status or a close code, in [Outcome] and Report.Errors.
const (
	EndWithoutClose = "end of the stream without a close frame"
	Reset           = "connection reset"
	Timeout         = "timeout"
)

// Outcome says how one session ended.
type Outcome struct {
	Session uint64
	Manner  Manner
	// Began is when its client began to dial. Upgraded is how long it took until the upgrade was accepted, and Answered until the first message came; 0
	// for never.
	Began              time.Time
	Upgraded, Answered time.Duration
	// Completed says that the session got its last result. Mute says that its results named none of its audio.
	Completed, Mute bool
	// Foreign is the number of messages with the identity of another session. Lost and Twice are as in the report.
	Foreign, Lost, Twice int
	// Kind says how the session failed or was refused; it is empty if it did not.
	Kind string
	// Status is the HTTP status of a refused upgrade. Code and Reason are from the close frame.
	Status int
	Code   frame.CloseCode
	Reason string
	// Trace returns what the session sent and received. It may be called only during the call of Options.Outcome.
	Trace func() string
}

// Succeeded reports whether the session did not fail and got each of its own results once.
func (o *Outcome) Succeeded() bool {
	return o.Kind == "" && !o.Mute && o.Foreign+o.Lost+o.Twice == 0 && (o.Completed || o.Manner != CleanEnd)
}
