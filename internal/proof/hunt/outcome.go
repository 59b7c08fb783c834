package hunt

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

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
