package api

import "time"

// The stream of events, GET /api/v1/events, is one stream of server-sent events (WHATWG HTML, section 9.2) for everything that a
// live view shows. The query is interval=SECONDS (1 to 60; default 2) and the fields of SessionQuery for the sessions that it
// shows (default: the 100 with the highest rate). Each event's data is JSON. A subscriber that does not read is dropped.
//
// Names of events.
const (
	EventStats    = "stats"    // Stats, at each interval
	EventSessions = "sessions" // SessionList with rates and lags, at each interval
	EventHistory  = "history"  // History: first the whole hour, then each new point alone
	EventEnded    = "ended"    // []Session: the sessions that have ended since the last one, at most 50
	EventAudit    = "audit"    // []Action: new ones
)

// History is what happened over the last hour, one point for each interval, oldest first.
type History struct {
	IntervalSeconds float64 `json:"interval_seconds"`
	Points          []Point `json:"points"`
}

// Point is an interval of the history.
type Point struct {
	Time     time.Time `json:"time"`     // of its end
	Sessions float64   `json:"sessions"` // active at its end
	Waiting  float64   `json:"waiting"`  // clients in queues at its end
	// Per second over the interval.
	SessionsPerSecond float64 `json:"sessions_per_second"` // begun
	FramesPerSecond   float64 `json:"frames_per_second"`   // both ways
	BytesPerSecond    float64 `json:"bytes_per_second"`
	// Failed counts sessions that ended in the interval with a fault of a backend or the proxy; Refused counts clients that got
	// no session.
	Failed  uint64 `json:"failed"`
	Refused uint64 `json:"refused"`
	// FirstReplySeconds is the median of the time from a client's first message to the backend's first; 0 for none in the interval.
	FirstReplySeconds float64 `json:"first_reply_seconds"`
	// WaitedSeconds is the median time that clients waited that got a connection in the interval; 0 for none.
	WaitedSeconds float64 `json:"waited_seconds"`
}
