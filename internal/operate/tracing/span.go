package tracing

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// The names of the spans: the whole session, its client's wait in the queue, and its time on a backend's connection.
const (
	sessionSpan = "session"
	queuedSpan  = "queued"
	leasedSpan  = "leased"
)

// begin starts the span of the whole session, which began when its client arrived.
func (t *Tracer) begin(own *record.Trace, arrived time.Time, attributes []attribute.KeyValue) (context.Context, trace.Span) {
	ctx := context.WithValue(context.Background(), idsKey{}, ids{own.ID, own.Session})
	if own.Parent != [8]byte{} {
		state, _ := trace.ParseTraceState(own.State) // an invalid one is left out
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: own.ID, SpanID: own.Parent, TraceFlags: trace.TraceFlags(own.Flags), TraceState: state,
		}))
	}
	return t.tracer.Start(ctx, sessionSpan, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(arrived), trace.WithAttributes(attributes...))
}

// spans implements finished.
func (r *refused) spans(t *Tracer) {
	_, span := t.begin(r.Trace, r.Arrived, append(append(origins(r.Client, r.Peer), who(r.Identity)...),
		semconv.URLPath(text(r.Path)),
		semconv.HTTPResponseStatusCode(r.Status),
		attribute.String("wsbouncer.service", text(r.Service)),
		attribute.String("wsbouncer.session.id", r.ID.String()),
		attribute.String("wsbouncer.refused.reason", text(r.Reason)),
	))
	if r.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, text(r.Reason))
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(r.Status)))
	}
	span.End(trace.WithTimestamp(r.At))
}

// spans implements finished.
func (e *ended) spans(t *Tracer) {
	own := e.Trace
	ctx, span := t.begin(own, e.Arrived, e.attributes())
	if e.Position > 0 {
		_, queued := t.tracer.Start(withSpanID(ctx, [8]byte{}), queuedSpan, trace.WithTimestamp(e.Arrived),
			trace.WithAttributes(attribute.Int("wsbouncer.queue.position", int(e.Position))))
		queued.End(trace.WithTimestamp(e.Leased))
	}
	_, leased := t.tracer.Start(withSpanID(ctx, own.Lease), leasedSpan, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(e.Leased),
		trace.WithAttributes(e.leasedAttributes()...))
	if !own.Ready.IsZero() {
		leased.AddEvent("ready", trace.WithTimestamp(own.Ready))
	}
	if !own.Replied.IsZero() {
		leased.AddEvent("first result", trace.WithTimestamp(own.Replied))
	}
	if e.Class.Failed() {
		for _, s := range []trace.Span{span, leased} {
			s.SetStatus(codes.Error, text(e.Reason))
			s.SetAttributes(semconv.ErrorTypeKey.String(e.Class.String()))
		}
	}
	end := e.Ended
	if own.Replied.After(end) { // the client had ended its part, and waited for the answer
		end = own.Replied
	}
	leased.End(trace.WithTimestamp(end))
	span.End(trace.WithTimestamp(end))
}

// attributes returns what is known of the session. Names without a prefix are those of OpenTelemetry's semantic conventions.
func (e *ended) attributes() []attribute.KeyValue {
	return append(append(origins(e.Client, e.Peer), who(e.Identity)...),
		semconv.NetworkProtocolName("websocket"),
		semconv.URLPath(text(e.Path)),
		attribute.String("wsbouncer.service", text(e.Service.Name)),
		attribute.String("wsbouncer.backend", text(e.Backend.Name())),
		attribute.String("wsbouncer.session.id", e.ID.String()),
		attribute.String("wsbouncer.close.by", e.By.String()),
		attribute.String("wsbouncer.close.class", e.Class.String()),
		attribute.Int("wsbouncer.close.code", int(e.Code)),
		attribute.String("wsbouncer.close.reason", text(e.Reason)),
		attribute.Int64("wsbouncer.client.frames", int64(e.Relayed.FramesFromClients)),
		attribute.Int64("wsbouncer.client.bytes", int64(e.Relayed.BytesFromClients)),
		attribute.Int64("wsbouncer.backend.frames", int64(e.Relayed.FramesFromBackends)),
		attribute.Int64("wsbouncer.backend.bytes", int64(e.Relayed.BytesFromBackends)),
	)
}

// who returns who a client is, if it was authenticated.
func who(client *identity.Identity) (all []attribute.KeyValue) {
	if client == nil {
		return nil
	}
	shown := record.ShownIdentity(client)
	for _, a := range []attribute.KeyValue{
		semconv.EnduserID(shown.Subject), attribute.String("wsbouncer.tenant", shown.Tenant),
		attribute.String("wsbouncer.auth.method", shown.Method), attribute.String("wsbouncer.auth.key", shown.Key),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return all
}

// origins returns where a client comes from, and the load balancer that it came through, if any. A port that is not known is left out.
func origins(client origin.Address, peer *origin.Address) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 24), semconv.ClientAddress(client.Addr().String()))
	if client.Port() != 0 {
		all = append(all, semconv.ClientPort(int(client.Port())))
	}
	if peer != nil {
		all = append(all, semconv.NetworkPeerAddress(peer.Addr().String()), semconv.NetworkPeerPort(int(peer.Port())))
	}
	return all
}

// leasedAttributes returns what is known of the connection that served the session last.
func (e *ended) leasedAttributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.NetworkProtocolName("websocket"),
		attribute.String("wsbouncer.backend", text(e.Backend.Name())),
		attribute.String("wsbouncer.connection.id", text(e.ConnectionID())),
		attribute.String("wsbouncer.connection.fate", e.Outcome.String()),
	}
	if u, err := url.Parse(e.Backend.URL()); err == nil {
		all = append(all, semconv.ServerAddress(text(u.Hostname())))
		port, err := strconv.Atoi(u.Port())
		if err != nil { // it is the scheme's (RFC 6455, section 3)
			port = map[string]int{"ws": 80, "wss": 443}[u.Scheme]
		}
		all = append(all, semconv.ServerPort(port))
	}
	return all
}

// text returns a text that can be exported: a single byte that is not UTF-8 would spoil the whole batch.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD") }

// ids are those that the next span gets, which were chosen when its session began. A zero span stands for a random one.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idsKey is the key of ids in a context.
type idsKey struct{}

// withSpanID returns a context in which the next span gets that id.
func withSpanID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, ids{span: id})
}

// generator implements [sdk.IDGenerator]: it takes the ids from the context.
type generator struct{}

// NewIDs implements [sdk.IDGenerator].
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	chosen, _ := ctx.Value(idsKey{}).(ids)
	return chosen.trace, chosen.span
}

// NewSpanID implements [sdk.IDGenerator].
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	chosen, _ := ctx.Value(idsKey{}).(ids)
	if !chosen.span.IsValid() {
		random(chosen.span[:])
	}
	return chosen.span
}
