package api

import "time"

// States of a session.
const (
	StateWaiting    = "waiting"    // in its service's queue, for its first connection
	StateRelaying   = "relaying"   // frames pass both ways
	StateMoving     = "moving"     // its backend could not serve it; it waits for another connection
	StateParked     = "parked"     // its client's connection broke; it waits for the client to come back
	StateAnswering  = "answering"  // the client has ended its part; the backend's last answers reach it
	StateCompleting = "completing" // the client has sent its last message; the backend was reset
	StateClosing    = "closing"    // its end is decided; the frame on its way to the client is completed
	StateLingering  = "lingering"  // its connection is free; the client's close frame is awaited
	StateEnded      = "ended"      // over: only in details and where ended sessions were asked for
)

// SessionStates are all states in their order.
var SessionStates = []string{
	StateWaiting, StateRelaying, StateMoving, StateParked, StateAnswering, StateCompleting, StateClosing, StateLingering, StateEnded,
}

// Session is one client's time with the proxy, or its wait for it.
type Session struct {
	ID         string `json:"id"`              // unique, also across restarts and proxies
	Proxy      string `json:"proxy,omitempty"` // that serves it, by name, in the answer of a whole fleet
	Service    string `json:"service"`
	Backend    string `json:"backend,omitempty"`    // that serves it, or served it last; empty while it waits for its first
	Connection string `json:"connection,omitempty"` // the id of the backend's connection
	Tenant     string `json:"tenant,omitempty"`     // whose session it is; empty if that is not known
	Subject    string `json:"subject,omitempty"`    // who the client is; empty if it was not authenticated
	Auth       string `json:"auth,omitempty"`       // how it was authenticated: keys, jwt, certificate or external; empty for not at all
	Key        string `json:"key,omitempty"`        // the name of its API key
	// Client is the client's address, and its port if that is known: a load balancer that says where a client comes from may say no port.
	Client string `json:"client"`
	// Peer is the address and port of the load balancer that the client came through, if it is one that the proxy trusts.
	Peer    string    `json:"peer,omitempty"`
	State   string    `json:"state"`
	Started time.Time `json:"started"` // when the client's connection was accepted
	// AgeSeconds is the time from Started to now, or to its end.
	AgeSeconds float64 `json:"age_seconds"`
	// WaitedSeconds is how long the client has waited for its first connection, so far or in all.
	WaitedSeconds float64 `json:"waited_seconds"`
	// Place is its place in the queue: 1 is served next. 0 if it does not wait.
	Place int `json:"place,omitempty"`

	// Data frames and payload bytes so far.
	FramesFromClient  uint64 `json:"frames_from_client"`
	BytesFromClient   uint64 `json:"bytes_from_client"`
	FramesFromBackend uint64 `json:"frames_from_backend"`
	BytesFromBackend  uint64 `json:"bytes_from_backend"`
	Usage
	// FirstReplySeconds is the time from the client's first message to the backend's first after it: so far, if FirstReplyOwed. 0 if the
	// client has sent no message.
	FirstReplySeconds float64 `json:"first_reply_seconds"`
	FirstReplyOwed    bool    `json:"first_reply_owed,omitempty"` // it has not come

	// LagSeconds is the age of the oldest audio or message that the backend has not answered, by what the profile's answers tell about that, for
	// sessions with failover or a stall-timeout; where results come for speech only (failover.stall is speech), of what partial results are about, or
	// the proxy has heard to be speech. Otherwise, it is how long the backend has sent nothing since the client sent something. 0 if nothing is
	// unanswered, and while the session waits for a connection.
	LagSeconds float64 `json:"lag_seconds"`
	// OwedSeconds is for how long the backend has surely owed a result: by its profile's sign (failover.stall), while the client sends and reads. 0
	// if it owes none, or that is not known.
	OwedSeconds float64 `json:"owed_seconds,omitempty"`
	// ClientSilentSeconds and BackendSilentSeconds are the time since the side's last data, or since the session began. 0 while it waits.
	ClientSilentSeconds  float64 `json:"client_silent_seconds"`
	BackendSilentSeconds float64 `json:"backend_silent_seconds"`
	// FramesPerSecond (both ways) is measured only while a client watches: in the stream of events. Otherwise it is 0.
	FramesPerSecond float64 `json:"frames_per_second"`

	// Assured: another backend could continue it. Unassured says why none could, if its service has failover: replay.
	Assured   bool   `json:"assured,omitempty"`
	Unassured string `json:"unassured,omitempty"`
	KeptBytes int64  `json:"kept_bytes,omitempty"` // what is kept for the next backend
	Failovers int    `json:"failovers,omitempty"`  // times that another backend continued it

	RequestID string `json:"request_id,omitempty"` // the client's X-Request-Id
	TraceID   string `json:"trace_id,omitempty"`   // of the client's traceparent
	Taps      int    `json:"taps,omitempty"`       // operators who watch its frames now

	// How it ended; zero unless the state is ended, or its end is decided already.
	Ended  time.Time `json:"ended,omitzero"`
	By     string    `json:"by,omitempty"`   // client, backend or proxy
	Code   uint16    `json:"code,omitempty"` // the client's close code
	Reason string    `json:"reason,omitempty"`
	Class  string    `json:"class,omitempty"` // the class of the reason, as in metrics
	// Fate is what became of the backend's connection when the lease ended: returned, resetting (and returned or discarded after that),
	// ended (the server was told that the session has ended, and the connection closes after that), or discarded.
	Fate string `json:"connection_fate,omitempty"`
}

// SessionList is GET /api/v1/sessions. The query has the fields of SessionQuery.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Matched  int       `json:"matched"` // how many there are; more than in the list if the limit cut it off
	Total    int       `json:"total"`   // sessions and waiting clients, whatever the filters
	// Missing are proxies whose sessions are not in the list, in the answer of a whole fleet.
	Missing []MissingProxy `json:"missing,omitempty"`
}

// SessionDetail is one session: GET /api/v1/sessions/ID.
type SessionDetail struct {
	Session
	Path    string `json:"path"` // the client's, without its query
	Host    string `json:"host,omitempty"`
	Profile string `json:"profile"`
	Variant string `json:"variant,omitempty"` // of connections that can serve it
	Moves   int    `json:"moves,omitempty"`   // connections that could not serve it
	// MoveTimeoutSeconds is how long it may wait for another connection from now on, while it is moving.
	MoveTimeoutSeconds float64 `json:"move_timeout_seconds,omitempty"`
	// Paused: the client is not read, because the backend or the profile takes nothing. BackendPaused: the other way.
	Paused        bool `json:"paused"`
	BackendPaused bool `json:"backend_paused"`
	// HeldBack says which limit keeps the client from being read; absent while none does.
	HeldBack *HeldBack `json:"held_back,omitempty"`
	// PendingToClient and PendingToBackend are bytes that the receiver has not taken yet.
	PendingToClient  int `json:"pending_to_client"`
	PendingToBackend int `json:"pending_to_backend"`

	// Queue is the queue in which it waits; nil if it does not.
	Queue *Place `json:"queue,omitempty"`
	// Server is the backend's connection that it holds; nil if it holds none.
	Server *Connection `json:"server,omitempty"`
	// Failover is how another backend could continue it; nil if its service has neither failover nor a stall-timeout.
	Failover *Failover `json:"failover,omitempty"`
	// Before are earlier sessions of the same connection, newest first, as far as the proxy remembers them.
	Before []Session `json:"before,omitempty"`
}

// Place is where a client stands in a queue.
type Place struct {
	Place          int     `json:"place"` // 1 is served next
	Waiting        int     `json:"waiting"`
	WaitedSeconds  float64 `json:"waited_seconds"`
	TimeoutSeconds float64 `json:"timeout_seconds"` // how long it may wait from now on
}

// Connection is a pooled connection.
type Connection struct {
	ID          string    `json:"id"`
	State       string    `json:"state"` // as docs/architecture.md names them
	Established time.Time `json:"established"`
	AgeSeconds  float64   `json:"age_seconds"`
	Sessions    int       `json:"sessions"` // that it has served, the present one included
	// RoundTripSeconds is that of the last answered ping; 0 for none.
	RoundTripSeconds float64 `json:"round_trip_seconds"`
	Subprotocol      string  `json:"subprotocol,omitempty"`
	// Boundary says in words what the profile waits for.
	Boundary string `json:"boundary,omitempty"`
}
