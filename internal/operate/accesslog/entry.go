package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
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
	api.Usage

	By         string `json:"by"`                        // who ended it: client, backend or proxy
	Code       uint16 `json:"code"`                      // the client's close code; 1006 if it left without one
	Class      string `json:"class,omitempty"`           // the class of the reason, as in metrics
	Connection string `json:"connection,omitempty"`      // the id of the backend's connection
	Fate       string `json:"connection_fate,omitempty"` // what became of it: returned or discarded
}

// Formats of lines.
const (
	// JSON is one JSON object for each entry.
	JSON = "json"
	// Combined is the format of the same name that Apache and nginx have. It says less: the address, the tenant as the user, the
	// end, the path, the status and the payload bytes sent to the client. Referer and User-Agent are always "-", since the proxy
	// logs no headers.
	Combined = "combined"
)

// Formats are all formats.
var Formats = []string{JSON, Combined}

// appendLine appends the entry's line, with its line break, to dst.
func (e *Entry) appendLine(dst []byte, format string) []byte {
	if format == Combined {
		return e.appendCombined(dst)
	}
	return e.appendJSON(dst)
}

func (e *Entry) appendJSON(dst []byte) []byte {
	now := *e
	now.Ended = now.Ended.UTC().Truncate(time.Millisecond)
	if e.Session != nil {
		session := *e.Session
		session.Started = session.Started.UTC().Truncate(time.Millisecond)
		now.Session = &session
	}
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&now); err != nil { // a time that JSON cannot have, such as the year 10000
		return fmt.Appendf(dst, "{\"error\":%q}\n", err.Error())
	}
	return line.Bytes()
}

func (e *Entry) appendCombined(dst []byte) []byte {
	client, request, size := "-", "-", "-"
	if e.Client.IsValid() {
		client = e.Client.Addr().String()
	}
	if e.Path != "" {
		request = "GET " + escape(e.Path) + " HTTP/1.1"
	}
	if e.Session != nil {
		size = strconv.FormatUint(e.BytesFromBackend, 10)
	}
	user := "-"
	if e.Tenant != "" {
		user = strings.ReplaceAll(escape(e.Tenant), " ", `\x20`)
	}
	return fmt.Appendf(dst, "%s - %s [%s] \"%s\" %d %s \"-\" \"-\"\n",
		client, user, e.Ended.Format("02/Jan/2006:15:04:05 -0700"), request, e.Status, size)
}

// escape returns the text as it may stand between quotes: as nginx does, it writes quotes, backslashes and control characters as \xXX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' || c < ' ' || c == 0x7f {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
