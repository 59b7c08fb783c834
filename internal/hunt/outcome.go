package hunt

import "github.com/wsbouncer/wsbouncer/internal/frame"

// Kinds of failures without a status or a close code, see [Outcome] and Report.Errors.
const (
	EndWithoutClose = "end of the stream without a close frame"
	Reset           = "connection reset"
	Timeout         = "timeout"
)

// Outcome is what became of one session.
type Outcome struct {
	Session uint64
	Manner  Manner
	// Completed says that it got its last result, and Mute that none of its audio was in the results.
	Completed, Mute bool
	// Foreign is how many messages had the identity of another session; Lost and Twice are as in the report.
	Foreign, Lost, Twice int
	// Kind says in words how the session failed, or was refused; empty when it did not.
	Kind string
	// Status is the answer to the upgrade request, if that was why, and Code and Reason are those of the close frame.
	Status int
	Code   frame.CloseCode
	Reason string
	// Trace tells what it sent and received. It is for the time of the call of Options.Outcome.
	Trace func() string
}

// Succeeded tells whether the session went as it should: it failed nowhere, and got its own results, all of them once.
func (o *Outcome) Succeeded() bool {
	return o.Kind == "" && !o.Mute && o.Foreign+o.Lost+o.Twice == 0 && (o.Completed || o.Manner != CleanEnd)
}
