// Package record is what is known of clients and sessions: their ids, traces and identities, the record that the log and operators get of a
// session when it ends, and of a client that was refused. All rooms of the session storey use it, and so do those who show sessions.
package record

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Record is what the log says about a session. It is owned by the session's loop.
type Record struct {
	ID      ID
	Service *route.Service
	Path    string // that the client asked for, without the query
	Client  origin.Address
	// Peer is the load balancer that the client's connection came from; nil if it came from the client itself.
	Peer    *origin.Address
	Arrived time.Time // when the client's connection was accepted
	Leased  time.Time // when the session began
	// Waited is the time from the client's request to Leased, or so far.
	Waited time.Duration
	// FirstReply is the time from the client's first whole message to the first data that the server sent after it; 0 before that.
	FirstReply time.Duration
	Ended      time.Time // when its end was decided
	Relayed    meter.Relayed
	Used       *meter.Used // what the client has used; nil before the end

	Backend    *backend.Backend // that served it last; nil before the first
	Connection uint32           // the number of the backend's connection
	// Position is the client's place in the queue when it began to wait for a connection; 0 if it did not wait.
	Position int32

	By      meter.Party
	Class   meter.Class     // of the reason
	Code    frame.CloseCode // the client's close code; AbnormalClosure if it left without one
	Outcome backend.Outcome // what became of the backend's connection
	Return  route.Return    // whether its client came back to the server that had given it an id
	Moves   uint16          // to other servers, after the session had begun
	Reason  string

	// Identity is who the client is; nil for none. What it points to is immutable.
	Identity *identity.Identity
	// RequestID is what the client calls its request (X-Request-Id); empty if it says nothing valid.
	RequestID string
	// Trace is the session's place in a distributed trace; nil for none.
	Trace *Trace
}

// Begin fills in what is known of a client that begins a session of a service now.
func (r *Record) Begin(service *route.Service, c *Client) {
	r.ID, r.Path, r.Client, r.Peer = c.ID, c.Path, c.Address, c.Peer
	r.Arrived, r.Position, r.Leased = c.Arrived, int32(c.Position), time.Now()
	r.Waited = r.Leased.Sub(c.Asked)
	r.Service = service
	r.RequestID, r.Trace, r.Identity = c.RequestID, c.Trace, c.Identity
}

func (r *Record) End(who meter.Party, class meter.Class, code frame.CloseCode, reason string) {
	r.By, r.Class, r.Code, r.Reason, r.Ended = who, class, code, reason, time.Now()
}

// GoOn takes the end back: another server continues the session.
func (r *Record) GoOn() {
	r.By, r.Class, r.Code, r.Reason, r.Ended = 0, meter.NotEnded, 0, "", time.Time{}
}

// Log writes the record as one line, after the session's end.
func (r *Record) Log(log *slog.Logger) {
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "session ended", append(r.Attrs(),
		slog.Time("arrived", r.Arrived),
		slog.Duration("waited", r.Waited),
		slog.Int("queue_position", int(r.Position)),
		slog.Duration("lasted", r.Ended.Sub(r.Leased)),
		slog.Duration("first_reply", r.FirstReply),
		slog.Uint64("frames_from_client", r.Relayed.FramesFromClients),
		slog.Uint64("bytes_from_client", r.Relayed.BytesFromClients),
		slog.Uint64("frames_from_backend", r.Relayed.FramesFromBackends),
		slog.Uint64("bytes_from_backend", r.Relayed.BytesFromBackends),
		slog.String("by", r.By.String()),
		slog.Int("code", int(r.Code)),
		slog.String("reason", r.ShownReason()),
		slog.String("class", r.Class.String()),
		slog.String("connection_fate", r.Outcome.String()),
		slog.Int("moves", int(r.Moves)),
	)...)
}

// LogStart writes a line when the session has its connection, for operators who want to see each step.
func (r *Record) LogStart(log *slog.Logger) {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	log.LogAttrs(context.Background(), slog.LevelDebug, "session started", append(r.Attrs(),
		slog.Duration("waited", r.Waited),
		slog.Int("queue_position", int(r.Position)),
	)...)
}

// identity returns what each line about the session begins with.
func (r *Record) Attrs() []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 28), slog.String("id", r.ID.String()), slog.String("service", r.Service.Name))
	attrs = AppendTexts(attrs, "path", r.Path)
	if r.Backend != nil {
		attrs = append(attrs, slog.String("backend", r.Backend.Name()), slog.String("connection", r.ConnectionID()))
	}
	attrs = append(attrs, slog.String("client", r.Client.String()))
	attrs = AppendTexts(attrs, IdentityTexts(r.Identity)...)
	return AppendTexts(attrs, "peer", r.Peer.Text(), "request_id", r.RequestID, "trace_id", r.TraceID(), "affinity", r.Return.String())
}

// ConnectionID returns the id of the backend's connection; empty before the first.
func (r *Record) ConnectionID() string {
	if r.Backend == nil {
		return ""
	}
	return r.Backend.Name() + "/" + strconv.FormatUint(uint64(r.Connection), 10)
}

// TraceID returns the id of the session's trace; empty if none is recorded, as far as the proxy knows.
func (r *Record) TraceID() string { return r.Trace.ShownID() }

// ShownReason returns the reason as logs and operators see it: printable, and of bounded length.
func (r *Record) ShownReason() string { return printable.Text(r.Reason, MaxReason) }
