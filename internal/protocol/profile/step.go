package profile

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Step says what the caller of a [Boundary] must do after an event. The zero value: relay what was presented, and do nothing else.
// The caller does Pass first, then the rest.
type Step struct {
	// Pass says what to do with the frame or the piece of payload that was presented.
	Pass Pass
	// Feed asks the caller to present the frame's payload by [Boundary.Feed]. If it is false, Pass applies to the payload too.
	Feed bool
	// Then says what happens to the connection or its session.
	Then Then
	// Client says whether to read from the client.
	Client Flow
	// Reason explains Broken, Elsewhere and Foreign.
	Reason Reason
	// Settings stands for what the session sets, if Then is Elsewhere and Reason is OtherSettings. It is the same number for all
	// sessions that can share a connection. A connection that no session has used will do as well.
	Settings uint64
	// Close is the code of the close frame for a client that is still connected, if Then is Finished or Broken; 0 for none.
	Close frame.CloseCode
	// Timer sets the time from now after which to call [Boundary.Timer]; it replaces an earlier one. 0 changes nothing, and
	// [StopTimer] stops the timer.
	Timer time.Duration
	// Send holds messages to send to the server at the next frame boundary, in this order: see [Message.Append] and
	// [Boundary.Token]. The caller must not change the slice.
	Send []Message
	// Answered is set if what was presented ends the server's answer to a keepalive of the session: the caller takes that out of its counts, so
	// that [Traffic] does not have it.
	Answered Answered
}

// StopTimer in [Step.Timer] stops the timer.
const StopTimer time.Duration = -1

// Pass says what to do with a frame or a piece of its payload.
type Pass uint8

const (
	// Relay passes it to the other side, unchanged.
	Relay Pass = iota
	// Hold passes nothing yet. The Boundary keeps a copy of the payload.
	Hold
	// Release passes on what was held of this message, this piece included, as one new frame: see [Boundary.Held]. The caller
	// relays the message's further frames.
	Release
	// Drop passes on neither this nor what was held of the message.
	Drop
	// Keep leaves it unread. The caller presents it again when it reads from the client again ([Resume]), or presents it to
	// another connection's Boundary ([Elsewhere]).
	Keep
)

// Flow says whether to read from the client.
type Flow uint8

const (
	// Unchanged leaves it as it is.
	Unchanged Flow = iota
	// Pause stops reading from the client, and presenting its frames, until Resume. What it sends waits in its socket.
	Pause
	// Resume reads from the client again.
	Resume
)

// Then says what happens to a connection or its session.
type Then uint8

const (
	// Continue: nothing changes.
	Continue Then = iota
	// Ready: the connection may serve a session. If another message has already been received, the caller must still present it,
	// and that may change this.
	Ready
	// Resetting: the session has ended, but the connection is not clean yet. The caller presents what the server sends, and the
	// Boundary drops it.
	Resetting
	// Broken: the connection must not serve another session: close it. A session that is still on it ends with Step.Close.
	Broken
	// Elsewhere: this connection cannot serve the session, but another one may. Nothing from the server has reached the client.
	// Take [Boundary.Opening], end this lease ([Boundary.End] says what to do with the connection), and present the opening to
	// another connection's Boundary first.
	Elsewhere
	// Replaced: the client has sent its end message, and the proxy sends the reset instead: call [Boundary.ReplaceEnd].
	Replaced
	// Finished: this message is the client's last answer. Relay it, close the client with Step.Close, and end the lease.
	Finished
	// Foreign: the server sent a message that this session did not ask for. The session ends with an internal error.
	Foreign
	// Leaving: the session has ended, the connection serves no other, and the server gets a message of the protocol that
	// the session has ended. The caller presents what the server sends, and the Boundary drops it. The connection is Broken when the
	// server has said its last word, or has taken too long ([Left], [LeaveTimeout]). A caller that does not wait for that sends
	// nothing of this Step, and calls [Boundary.End] again.
	Leaving
)

var thenTexts = []string{"continue", "ready", "resetting", "broken", "elsewhere", "replaced", "finished", "foreign", "leaving"}

// String returns a word for logs.
func (t Then) String() string { return thenTexts[t] }

// Reason says why a connection is broken or a session must move to another one.
type Reason uint8

// The reasons.
const (
	NoReason       Reason = iota
	Served                // the connection has served its one session
	Cut                   // a message to the server was cut off
	LeftEarly             // the client left without its end message, and the profile does not reset the connection then
	Unclean               // the session may have left something that the reset does not clear
	NotReady              // the server did not become ready in time
	Busy                  // the server is full
	OtherSettings         // earlier sessions left settings on the connection that this one does not have
	Unsolicited           // the server sent a message that was not asked for
	GreetingFailed        // the server's greeting did not come in time, or was too long
	NotAlive              // the server did not answer a keepalive message in time
	ResetTimeout          // the reset did not succeed in time
	ResetMismatch         // the server's last reply to the reset was not the acknowledgement
	LateMessage           // a message came after the acknowledgement of the reset
	ServerClosed          // the server closed the connection
	TaskFailed            // the server reported a failed task, after which the connection cannot be reused
	Left                  // the session was ended on the server in order
	LeaveTimeout          // the server did not say its last word in time, although it was told that the session has ended
	ResultTimeout         // the client's last result, or an answer before it, did not come in time
	OtherServer           // the client comes back to another server: see [Guide]
)

var reasonTexts = []string{
	"", "served", "cut off", "left early", "unclean", "not ready", "busy", "other settings", "unsolicited message", "greeting failed",
	"keepalive not answered", "reset timed out", "reset not acknowledged", "late message", "closed by the server", "task failed",
	"ended in order", "end not answered", "last result timed out", "belongs to another server",
}

// String returns a few words for logs.
func (r Reason) String() string { return reasonTexts[r] }
