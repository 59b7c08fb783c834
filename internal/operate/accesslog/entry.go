package accesslog

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Entry is one line of the access log: a session that has ended, or a client that was refused. The names in JSON are those of the
// admin API's sessions; texts that are empty are left out. Texts must be printable and of bounded length.
type Entry struct {
	Ended   time.Time      `json:"time"` // when its end was decided, or the client was refused
	ID      string         `json:"id,omitempty"`
	Service string         `json:"service,omitempty"`
	Path    string         `json:"path,omitempty"` // that the client asked for, without the query
	Tenant  string         `json:"tenant,omitempty"`
	Subject string         `json:"subject,omitempty"`
	Auth    string         `json:"auth,omitempty"` // how the client was authenticated
	Key     string         `json:"key,omitempty"`  // the name of its API key
	Client  origin.Address `json:"client,omitzero"`
	// Peer is the load balancer that the client came through; nil for none.
	Peer      *origin.Address `json:"peer,omitempty"`
	Status    int             `json:"status"`           // of the answer to the upgrade request: 101 for a session
	Reason    string          `json:"reason,omitempty"` // why it ended, or was refused
	RequestID string          `json:"request_id,omitempty"`
	TraceID   string          `json:"trace_id,omitempty"`
	*Session                  // nil for a refused client
}

// Session is what an entry has only if there was a session.
type Session struct {
	Backend string    `json:"backend,omitempty"` // that served it last
	Started time.Time `json:"started"`           // when the client's connection was accepted
	// WaitedSeconds is how long the client waited for its first connection, LastedSeconds the time from then to the end, and
	// FirstReplySeconds that from its first message to the backend's first; 0 for none.
	WaitedSeconds     float64 `json:"waited_seconds"`
	LastedSeconds     float64 `json:"lasted_seconds"`
	FirstReplySeconds float64 `json:"first_reply_seconds"`

	// Data frames and payload bytes.
	FramesFromClient  uint64 `json:"frames_from_client"`
	BytesFromClient   uint64 `json:"bytes_from_client"`
	FramesFromBackend uint64 `json:"frames_from_backend"`
	BytesFromBackend  uint64 `json:"bytes_from_backend"`

	By         string `json:"by"`                        // who ended it: client, backend or proxy
	Code       uint16 `json:"code"`                      // the client's close code; 1006 if it left without one
	Class      string `json:"class,omitempty"`           // the class of the reason, as in metrics
	Connection string `json:"connection,omitempty"`      // the id of the backend's connection
	Fate       string `json:"connection_fate,omitempty"` // what became of it: returned or discarded
}
