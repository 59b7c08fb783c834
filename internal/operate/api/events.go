package api

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// The stream of events, GET /api/v1/events, is one stream of server-sent events (WHATWG HTML, section 9.2) for everything that a
// live view shows. The query is interval=SECONDS (1 to 60; default 2) and the fields of SessionQuery for the sessions that it
// shows (see EventQuery). Each event's data is JSON. A subscriber that does not read is dropped.
//
// Names of events.
const (
	EventStats    = "stats"    // Stats, at each interval
	EventSessions = "sessions" // SessionList with rates, at each interval
	EventHistory  = "history"  // History: first the whole hour, then each new point alone
	EventEnded    = "ended"    // []Session, oldest first: first the last 50 that have ended, then those since the last event, at most 50
	EventAudit    = "audit"    // []Action, oldest first: first the last 50, then new ones
)

// Bounds of EventQuery.
const (
	MinEventInterval     = 1  // seconds
	MaxEventInterval     = 60 // seconds
	DefaultEventInterval = 2  // seconds
	MaxEventSessions     = 1000
	DefaultEventSessions = 100
)

// EventQuery is what a subscriber wants of the stream of events. Subscribers with equal queries share the work.
type EventQuery struct {
	IntervalSeconds int // between two statistics and two lists of sessions
	// SessionQuery chooses the sessions in the lists. Its state cannot be ended: the event "ended" is for those.
	SessionQuery
}

// ParseEventQuery reads the query of a URL. What is missing gets its default: an interval of 2 s, and the 100 sessions with the
// highest rate. An error names the parameter, the value and what is allowed.
func ParseEventQuery(values url.Values) (q EventQuery, err error) {
	interval, limit := DefaultEventInterval, DefaultEventSessions
	sessions := make(url.Values, len(values))
	for name, all := range values {
		switch name {
		case "interval":
			text := all[len(all)-1]
			interval, err = strconv.Atoi(text)
			if err != nil || interval < MinEventInterval || interval > MaxEventInterval {
				return q, fmt.Errorf("interval: invalid number %.40q: use whole seconds from %d to %d", text, MinEventInterval, MaxEventInterval)
			}
		case "limit":
			text := all[len(all)-1]
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxEventSessions {
				return q, fmt.Errorf("limit: invalid number %.40q: use a whole number from 1 to %d", text, MaxEventSessions)
			}
		case "service", "backend", "tenant", "client", "state", "sort":
			sessions[name] = all
		default:
			return q, unknownParameter(name, "interval, ")
		}
	}
	if q.SessionQuery, err = ParseSessionQuery(sessions); err != nil {
		return q, err
	}
	if q.State == StateEnded {
		return q, fmt.Errorf("state: %q is not possible here: the event %q has the sessions that have ended", q.State, EventEnded)
	}
	if q.Sort == "" {
		q.Sort = "rate"
	}
	q.IntervalSeconds, q.Limit = interval, limit
	return q, nil
}

// Values returns the query of a URL.
func (q EventQuery) Values() url.Values {
	v := q.SessionQuery.Values()
	if q.IntervalSeconds > 0 {
		v.Set("interval", strconv.Itoa(q.IntervalSeconds))
	}
	return v
}

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
	// Moved counts the times in the interval that another backend continued a session, and NotMoved those that none did.
	Moved    uint64 `json:"moved"`
	NotMoved uint64 `json:"not_moved"`
	// FirstReplySeconds is the median of the time from a client's first message to the backend's first; 0 for none in the interval.
	FirstReplySeconds float64 `json:"first_reply_seconds"`
	// WaitedSeconds is the median time that clients waited that got a connection in the interval; 0 for none.
	WaitedSeconds float64 `json:"waited_seconds"`
}
