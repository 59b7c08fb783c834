package profile

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Step is what the caller of a [Boundary] has to do after an event. The zero value: pass on what was presented, and nothing
// else.
type Step struct {
	// Pass is what becomes of the frame or the piece of payload that was presented.
	Pass Pass
	// Feed asks for the payload of the frame that was presented, by [Boundary.Feed]. Without it the payload is not
	// presented, and shares the fate of its frame.
	Feed bool
	// Then is what becomes of the connection or of its session.
	Then Then
	// Client is what becomes of reading from the client.
	Client Flow
	// Reason is why, with Discard, Elsewhere and Foreign.
	Reason Reason
	// Settings, with Elsewhere because of OtherSettings, stands for what the session sets: the same number for all sessions
	// that can share connections. A connection that was used for no others will do.
	Settings uint64
	// Close is the code of the close frame for the client that is still there, with Finished and Discard; 0 for none.
	Close frame.CloseCode
	// Timer is when to call [Boundary.Timer]: this long from now, instead of what was asked before. 0 leaves what was asked
	// before, [StopTimer] takes it back.
	Timer time.Duration
	// Send are messages for the server, to be sent at the next frame boundary towards it, in this order: see
	// [Message.Append] and [Boundary.Token]. The slice is not to be changed.
	Send []Message
}

// StopTimer in [Step.Timer] stops the timer.
const StopTimer time.Duration = -1

// Pass is what becomes of a frame or of a piece of its payload.
type Pass uint8

const (
	// Relay: it goes on to the other side, unchanged.
	Relay Pass = iota
	// Hold: it is kept back. The Boundary has a copy of the payload.
	Hold
	// Release: what was held of this message, this piece included, goes on to the other side as one new frame, see
	// [Boundary.Held]. What follows of the message is relayed.
	Release
	// Drop: neither it nor what was held of this message goes on.
	Drop
	// Keep: it was not taken. It stays unread, to be presented again when the client is read again ([Resume]), or to another
	// connection's Boundary ([Elsewhere]).
	Keep
)

// Flow is what becomes of reading from the client.
type Flow uint8

const (
	// Unchanged: it is read, or not, as before.
	Unchanged Flow = iota
	// Pause: it is not read, and no further frame of it presented, until Resume. What it sends waits in its socket.
	Pause
	// Resume: it is read again.
	Resume
)

// Then is what becomes of a connection or of its session.
type Then uint8

const (
	// Continue: nothing changes.
	Continue Then = iota
	// Ready: the connection may serve a session. A message that follows in what has been received already must still be
	// presented, and may change that.
	Ready
	// Resetting: the session is over, the connection is not clean yet. What the server sends is to be presented, and
	// is dropped.
	Resetting
	// Broken: the connection must serve nobody any more: close it. If a session is still there, it ends with Step.Close.
	Broken
	// Elsewhere: this connection cannot serve the session, but another one may. Nothing of the server has reached the
	// client. Take [Boundary.Opening], end this lease ([Boundary.End] says what becomes of the connection), and
	// present the opening to another connection's Boundary first.
	Elsewhere
	// Replaced: the client has sent its last message, in whose place the reset is to be sent: call [Boundary.ReplaceEnd].
	Replaced
	// Finished: the client has got its last answer, once this message is relayed. Close it with Step.Close and end the
	// lease.
	Finished
	// Foreign: the server said what this session did not ask for. The session ends, with an internal error.
	Foreign
)

var thenTexts = []string{"continue", "ready", "resetting", "broken", "elsewhere", "replaced", "finished", "foreign"}

// String returns a word for logs.
func (t Then) String() string { return thenTexts[t] }

// Reason says why a connection is broken or a session has to go elsewhere.
type Reason uint8

// The reasons.
const (
	NoReason       Reason = iota
	Served                // it served its one session
	Cut                   // a message to the server was cut off
	LeftEarly             // the client left before its end, and the profile does not reset then
	Unclean               // the session left something behind that the reset does not cover
	NotReady              // the server did not become ready in time
	Busy                  // the server is full
	OtherSettings         // earlier sessions left settings on the connection that this one does not have
	Unsolicited           // the server said something that nobody asked for
	GreetingFailed        // the server's greeting did not come in time, or was too long
	NotAlive              // a keepalive message was not answered in time
	ResetTimeout          // the reset did not succeed in time
	ResetMismatch         // the server answered the reset with something else than its acknowledgement
	LateMessage           // a message came behind the acknowledgement of the reset
	ServerClosed          // the server closed the connection
	TaskFailed            // the server said that the connection is of no use any more
)

var reasonTexts = []string{
	"", "served", "cut off", "left early", "unclean", "not ready", "busy", "other settings", "unsolicited message", "greeting failed",
	"keepalive not answered", "reset timed out", "reset not acknowledged", "late message", "closed by the server", "task failed",
}

// String returns a few words for logs.
func (r Reason) String() string { return reasonTexts[r] }
