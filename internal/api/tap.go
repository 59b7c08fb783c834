package api

import "time"

// TapEvent is one line of a tap: what happened on a session while an operator watched. GET /api/v1/tap streams them as JSON lines
// (application/x-ndjson). The query is session=ID, or client=, backend= or service= with first=N for the next N sessions that
// begin, and text=BYTES for how much of each text message to show (default 200, at most 4096).
type TapEvent struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session"`
	// Event is what happened: session (it began, moved to another connection, or ended), frame, verdict (of the profile), connection
	// (what became of it after the session), missed (events that this tap was too slow to take), end (of the tap).
	Event string `json:"event"`
	// From is client or backend, for frames and verdicts; proxy for frames that the proxy itself sent.
	From string `json:"from,omitempty"`
	Kind string `json:"kind,omitempty"` // of a frame: text, binary, continuation, ping, pong, close
	Size int64  `json:"size,omitempty"` // of a frame's payload in bytes
	Fin  bool   `json:"fin,omitempty"`  // the frame ends its message
	Text string `json:"text,omitempty"` // the beginning of a text frame
	Cut  bool   `json:"cut,omitempty"`  // the text is longer
	Code uint16 `json:"code,omitempty"` // of a close frame
	// What is a verdict (passed, held, released, dropped, ends-session, reset, answered, moved, broken), or a reason.
	What string `json:"what,omitempty"`
	// Count is how many events were missed.
	Count uint64 `json:"count,omitempty"`
}
