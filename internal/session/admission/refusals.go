package admission

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"golang.org/x/time/rate"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
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
	if log := g.options.Log; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("client left before its session began", "id", a.ID.String(), "client", a.Address.String(), "path", a.Path,
			"after", time.Since(a.Arrived), "reason", printable.Text(err.Error(), record.MaxReason))
	}
	if a.told != nil {
		a.told.leave()
		return
	}
	_ = nc.Close()
}

// How many refused clients are logged: of each HTTP status so many at once, and so many a second after that. A crowd that is turned
// away must not fill a disk.
const (
	refusalsAtOnce    = 20
	refusalsPerSecond = 10
	// tellLeftOut is how long lines are left out before one says how many.
	tellLeftOut = 10 * time.Second
)

// refusals logs refused clients. It may be used from any goroutine.
type refusals struct {
	out *slog.Logger // static

	mu       sync.Mutex
	limiters map[int]*rate.Limiter // guarded by mu; by status
	leftOut  map[int]uint64        // guarded by mu; by status, since the last line about them
	timer    *time.Timer           // guarded by mu; nil unless lines were left out
	closed   bool                  // guarded by mu
}

func (r *refusals) init(log *slog.Logger) {
	r.out, r.limiters, r.leftOut = log, make(map[int]*rate.Limiter), make(map[int]uint64)
}

// log writes a line about a refused client, or counts it.
func (r *refusals) log(c *record.Refused) {
	if !r.out.Enabled(context.Background(), slog.LevelInfo) || !r.allow(c.Status, c.At) {
		return
	}
	attrs := []slog.Attr{slog.String("id", c.ID.String()), slog.String("client", c.Client.String())}
	attrs = record.AppendTexts(attrs, record.IdentityTexts(c.Identity)...)
	attrs = record.AppendTexts(attrs, "peer", c.Peer.Text(), "service", c.Service, "path", c.Path, "request_id", c.RequestID, "trace_id", c.TraceID)
	attrs = append(attrs, slog.Int("status", c.Status), slog.String("reason", c.Reason))
	r.out.LogAttrs(context.Background(), slog.LevelInfo, "client refused", attrs...)
}

// allow reports whether there may be a line now about a refusal with that status. Otherwise it counts it.
func (r *refusals) allow(status int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.limiters[status]
	if limiter == nil {
		limiter = rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)
		r.limiters[status] = limiter
	}
	if limiter.AllowN(now, 1) {
		return true
	}
	r.leftOut[status]++
	if r.timer == nil && !r.closed {
		r.timer = time.AfterFunc(tellLeftOut, r.tell)
	}
	return false
}

// tell writes one line about all that was left out.
func (r *refusals) tell() {
	r.mu.Lock()
	leftOut := r.leftOut
	r.leftOut, r.timer = make(map[int]uint64), nil
	r.mu.Unlock()
	count, byStatus := uint64(0), make([]string, 0, len(leftOut))
	for _, status := range slices.Sorted(maps.Keys(leftOut)) {
		count += leftOut[status]
		byStatus = append(byStatus, fmt.Sprintf("%d: %d", status, leftOut[status]))
	}
	if count > 0 {
		r.out.Info("refused clients left out of the log", "count", count, "by_status", strings.Join(byStatus, ", "))
	}
}

// close tells what was left out, and starts no timer any more.
func (r *refusals) close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.tell()
}
