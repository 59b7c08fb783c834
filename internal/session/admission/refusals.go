package admission

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// refuse answers a client that gets no session. req is nil if its request could not be read.
func (g *Gate) refuse(nc net.Conn, req *handshake.Request, a arrival, refusal *handshake.Refusal) {
	g.refused[refusal.Status].Add(1)
	reason := refusal.Reason
	if refusal.Logged != "" {
		reason = refusal.Logged
	}
	r := record.Refused{
		Arrived: a.Arrived, At: time.Now(), ID: a.ID, Path: a.Path, Client: a.Address, Peer: a.Peer, Status: refusal.Status, Reason: printable.Text(reason, record.MaxReason),
		RequestID: a.RequestID, TraceID: a.Trace.ShownID(), Trace: a.Trace, Identity: a.Identity,
	}
	if req != nil {
		if service := g.routes.Load().Find(req.Host, req.URL.Path); service != nil {
			r.Service = service.Name
		}
	}
	g.refusals.log(&r)
	if g.options.Refused != nil {
		g.options.Refused(&r)
	}
	if a.told != nil { // it has its 101
		a.told.end(a.told.code, refusal.Reason)
		return
	}
	handshake.Refuse(nc, refusal, handshake.Field{Name: record.IDHeader, Value: a.ID.String()})
}

// left notes that a client went away before it had a session.
func (g *Gate) left(nc net.Conn, a arrival, err error) {
	if log := g.shared.Log; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("client left before its session began", "id", a.ID.String(), "client", a.Address.String(), "path", a.Path,
			"after", time.Since(a.Arrived), "reason", printable.Text(err.Error(), record.MaxReason))
	}
	if a.told != nil {
		a.told.leave()
		return
	}
	_ = nc.Close()
}

// refusals logs refused clients. It may be used from any goroutine.
type refusals struct {
	out   *slog.Logger // static
	lines lineLimiter[int]
}

func (r *refusals) init(log *slog.Logger) {
	r.out = log
	r.lines.report = func(count uint64, by []string) {
		log.Info("refused clients left out of the log", "count", count, "by_status", strings.Join(by, ", "))
	}
}

// log writes a line about a refused client, or counts it.
func (r *refusals) log(c *record.Refused) {
	if !r.out.Enabled(context.Background(), slog.LevelInfo) || !r.lines.allow(c.Status, c.At) {
		return
	}
	attrs := []slog.Attr{slog.String("id", c.ID.String()), slog.String("client", c.Client.String())}
	attrs = record.AppendTexts(attrs, record.IdentityTexts(c.Identity)...)
	attrs = record.AppendTexts(attrs, "peer", c.Peer.Text(), "service", c.Service, "path", c.Path, "request_id", c.RequestID, "trace_id", c.TraceID)
	attrs = append(attrs, slog.Int("status", c.Status), slog.String("reason", c.Reason))
	r.out.LogAttrs(context.Background(), slog.LevelInfo, "client refused", attrs...)
}
