package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

var begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig is a tracer with a backend that sessions can have been on.
type rig struct {
	*Tracer
	backend *backend.Backend
	log     *bytes.Buffer // may be read when the tracer is closed
}

func newRig(t *testing.T, ratio float64, endpoint string) *rig {
	t.Helper()
	log := new(bytes.Buffer)
	tracer, err := Start(Options{Endpoint: endpoint, Ratio: ratio, Version: "1.2.3", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{tracer, aBackend(t), log}
}

// aBackend returns a backend that connects to nothing.
func aBackend(t *testing.T) *backend.Backend {
	t.Helper()
	loops, err := loop.NewGroup(loop.Options{Min: 1, Max: 1, IOURing: loop.IOURingOff})
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget("ws://gpu-1.example.org/v1")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := profile.Named("one-shot")
	group := pool.NewGroup[*backend.Conn](pool.Options{})
	b := backend.New(backend.Options{
		Name: "gpu-1", Target: target, Profile: one, Group: group, Loops: loops, Peers: new(backend.Peers), Log: slog.New(slog.DiscardHandler),
		Settings: pool.Settings{Cap: 1, Weight: 1}, Mode: pool.Disabled,
	})
	t.Cleanup(func() {
		b.Close(context.Background())
		loops.Close()
	})
	return b
}

// close closes the tracer within the limit, and returns what it has logged.
func (r *rig) close(limit time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r.Close(ctx)
	return r.log.String()
}

// parent is what a client says of its trace.
func parent(flags byte) *record.Trace {
	return &record.Trace{ID: [16]byte{1, 15: 2}, Parent: [8]byte{3, 7: 4}, Flags: flags, State: "vendor=x"}
}

// end reports an ended session to the tracer.
func (r *rig) end(client *record.Trace, change func(*record.Record)) *record.Trace {
	record := &record.Record{
		ID: id(1042), Service: &route.Service{Name: "stt"}, Path: "/v1/stt",
		Client: origin.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4711")}, Backend: r.backend, Trace: r.Trace(client),
		Arrived: begun, Position: 3, Leased: begun.Add(time.Second), Ended: begun.Add(3 * time.Second),
		Relayed: meter.Relayed{FramesFromClients: 1, BytesFromClients: 2, FramesFromBackends: 3, BytesFromBackends: 4},
		Code:    frame.NormalClosure, Reason: "done", Connection: 7, Outcome: backend.Returned,
	}
	if change != nil {
		change(record)
	}
	r.Ended(record)
	return record.Trace
}

// id returns the id of a session.
func id(number uint64) record.ID {
	return record.ID{Process: record.Process([]byte("q7m2kd4x")), Number: number}
}

// The spans say everything that the record says, with the record's times.
func TestSpans(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := newCollector(t, nil)
	r := newRig(t, 0, c.url) // the client's flag decides
	trace := r.end(parent(record.TraceSampled), func(record *record.Record) {
		record.Trace.Ready, record.Trace.Replied, record.Class = begun.Add(2*time.Second), begun.Add(2500*time.Millisecond), meter.Normal
	})
	if log := r.close(wstest.Timeout); log != "" {
		t.Errorf("the log says %s", log)
	}
	spans := c.spans()
	whole, queued, leased := spans["session"], spans["queued"], spans["leased"]
	if len(spans) != 3 || whole.Span == nil || queued.Span == nil || leased.Span == nil {
		t.Fatalf("spans: %v", spans)
	}
	for name, want := range map[string]any{
		"wsbouncer.session.id": id(1042).String(), "url.path": "/v1/stt", "client.address": "192.0.2.7", "client.port": int64(4711), "network.protocol.name": "websocket",
		"wsbouncer.service": "stt", "wsbouncer.backend": "gpu-1", "wsbouncer.close.by": "client", "wsbouncer.close.class": "normal", "wsbouncer.close.code": int64(1000),
		"wsbouncer.close.reason": "done", "wsbouncer.client.frames": int64(1), "wsbouncer.client.bytes": int64(2),
		"wsbouncer.backend.frames": int64(3), "wsbouncer.backend.bytes": int64(4),
	} {
		if whole.attributes[name] != want {
			t.Errorf("%s is %v; want %v", name, whole.attributes[name], want)
		}
	}
	for name, want := range map[string]any{"server.address": "gpu-1.example.org", "server.port": int64(80), "wsbouncer.connection.fate": "returned", "wsbouncer.connection.id": "gpu-1/7"} {
		if leased.attributes[name] != want {
			t.Errorf("%s of the lease is %v; want %v", name, leased.attributes[name], want)
		}
	}
	for name, want := range map[string]any{"service.name": "wsbouncer", "service.version": "1.2.3", "deployment.environment.name": "test"} {
		if whole.resource[name] != want {
			t.Errorf("%s of the resource is %v; want %v", name, whole.resource[name], want)
		}
	}
	at := func(after time.Duration) uint64 { return uint64(begun.Add(after).UnixNano()) }
	for _, s := range []struct {
		span
		begins, ends uint64
		kind         tracepb.Span_SpanKind
		id, parent   []byte
	}{
		{whole, at(0), at(3 * time.Second), tracepb.Span_SPAN_KIND_SERVER, trace.Session[:], trace.Parent[:]},
		{queued, at(0), at(time.Second), tracepb.Span_SPAN_KIND_INTERNAL, queued.GetSpanId(), trace.Session[:]},
		{leased, at(time.Second), at(3 * time.Second), tracepb.Span_SPAN_KIND_CLIENT, trace.Lease[:], trace.Session[:]},
	} {
		switch {
		case s.GetStartTimeUnixNano() != s.begins, s.GetEndTimeUnixNano() != s.ends:
			t.Errorf("%s lasts from %d to %d", s.GetName(), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		case s.GetKind() != s.kind, !bytes.Equal(s.GetSpanId(), s.id), !bytes.Equal(s.GetParentSpanId(), s.parent), len(s.GetSpanId()) != 8:
			t.Errorf("%s: %v", s.GetName(), s.Span)
		case !bytes.Equal(s.GetTraceId(), trace.ID[:]), s.GetTraceState() != "vendor=x":
			t.Errorf("%s is in trace %x, %q", s.GetName(), s.GetTraceId(), s.GetTraceState())
		case s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_UNSET:
			t.Errorf("%s has the status %v", s.GetName(), s.GetStatus())
		}
	}
	if events := leased.GetEvents(); len(events) != 2 || events[0].GetName() != "ready" || events[0].GetTimeUnixNano() != at(2*time.Second) ||
		events[1].GetName() != "first result" || events[1].GetTimeUnixNano() != at(2500*time.Millisecond) {
		t.Errorf("events: %v", events)
	}
}

// A session whose client said nothing begins a trace; one that did not wait has no span for that.
func TestRootSpan(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	c := newCollector(t, nil)
	r := newRig(t, 1, c.url)
	trace := r.end(nil, func(record *record.Record) { record.Position = 0 })
	r.close(wstest.Timeout)
	spans := c.spans()
	whole := spans["session"]
	if len(spans) != 2 || len(whole.GetParentSpanId()) != 0 || !bytes.Equal(whole.GetTraceId(), trace.ID[:]) || !bytes.Equal(whole.GetSpanId(), trace.Session[:]) {
		t.Errorf("spans: %v", spans)
	}
	if whole.resource["service.name"] != "edge" {
		t.Errorf("resource: %v", whole.resource)
	}
}

// A client that a service refuses has a span, too; one that no service wants, such as a scanner's, has none.
func TestRefused(t *testing.T) {
	c := newCollector(t, nil)
	r := newRig(t, 0, c.url)
	for _, service := range []string{"", "stt"} {
		r.Refused(&record.Refused{
			ID: id(1043), Service: service, Path: "/v1/stt", Client: origin.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:0")},
			Peer:    &origin.Address{AddrPort: netip.MustParseAddrPort("10.0.0.5:40000")},
			Arrived: begun, At: begun.Add(10 * time.Second), Status: 503, Reason: "no connection came free in time", Trace: r.Trace(parent(record.TraceSampled)),
		})
	}
	r.Refused(&record.Refused{Service: "stt"})
	r.close(wstest.Timeout)
	spans := c.spans()
	whole := spans["session"]
	if len(spans) != 1 || whole.GetEndTimeUnixNano()-whole.GetStartTimeUnixNano() != 10e9 || whole.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Fatalf("spans: %v", spans)
	}
	for name, want := range map[string]any{
		"wsbouncer.session.id": id(1043).String(), "wsbouncer.service": "stt", "http.response.status_code": int64(503), "error.type": "503",
		"wsbouncer.refused.reason": "no connection came free in time",
		// It came through a load balancer, which did not say its port.
		"client.address": "192.0.2.7", "client.port": nil, "network.peer.address": "10.0.0.5", "network.peer.port": int64(40000),
	} {
		if whole.attributes[name] != want {
			t.Errorf("%s is %v; want %v", name, whole.attributes[name], want)
		}
	}
}

// The end is an error if the backend or the proxy is to blame for it, and not if the client or an operator wanted it so.
func TestStatus(t *testing.T) {
	c := newCollector(t, nil)
	r := newRig(t, 1, c.url)
	for _, class := range meter.Classes() {
		r.end(nil, func(record *record.Record) {
			record.Position, record.By, record.Class, record.Reason = 0, meter.Server, class, "broke"
			record.Service = &route.Service{Name: class.String()}
		})
	}
	r.close(wstest.Timeout)
	seen := 0
	for _, s := range c.all() {
		if s.GetName() != sessionSpan {
			continue
		}
		seen++
		class, failed := s.attributes["wsbouncer.service"], s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR
		want := class == "backend_failed" || class == "backend_full" || class == "connection_lost" || class == "internal_error"
		if failed != want || failed && (s.GetStatus().GetMessage() != "broke" || s.attributes["error.type"] != class) || s.attributes["wsbouncer.close.class"] != class {
			t.Errorf("%v: status %v, attributes %v", class, s.GetStatus(), s.attributes)
		}
	}
	if seen != len(meter.Classes()) {
		t.Errorf("%d of %d sessions were exported", seen, len(meter.Classes()))
	}
}

// Texts that come from outside cannot spoil the batch that they are in.
func TestHostileTexts(t *testing.T) {
	c := newCollector(t, nil)
	r := newRig(t, 1, c.url)
	hostile := parent(record.TraceSampled)
	hostile.State = "=,=,\x00 no tracestate"
	r.end(hostile, func(record *record.Record) {
		record.Code, record.Class, record.Reason = frame.InternalError, meter.BackendFailed, "bad \xff\x00\x1b[2J"+strings.Repeat("ä", 64<<10)
	})
	if log := r.close(wstest.Timeout); log != "" {
		t.Errorf("the log says %s", log)
	}
	whole := c.spans()["session"]
	reason, _ := whole.attributes["wsbouncer.close.reason"].(string)
	if !strings.HasPrefix(reason, "bad \uFFFD\x00\x1b[2Jää") || len(reason) > maxText+8 || whole.GetTraceState() != "" {
		t.Errorf("reason %.20q of %d bytes, state %q", reason, len(reason), whole.GetTraceState())
	}
	if s := whole.GetStatus(); s.GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(s.GetMessage()) > maxText+8 || whole.attributes["error.type"] != "backend_failed" {
		t.Errorf("status %v, attributes %v", s.GetCode(), whole.attributes)
	}
}

// The client's flag decides, and otherwise the ratio.
func TestSampling(t *testing.T) {
	r := newRig(t, 0.25, "http://127.0.0.1:1/v1/traces")
	defer r.close(0)
	const n = 20000
	sampled := 0
	for range n {
		trace := r.Trace(nil)
		if trace.ID == [16]byte{} || trace.Session == [8]byte{} || trace.Lease == [8]byte{} || trace.Parent != [8]byte{} {
			t.Fatalf("trace %+v", trace)
		}
		if trace.Sampled() {
			sampled++
		}
	}
	if sampled < n/4-500 || sampled > n/4+500 { // eight standard deviations
		t.Errorf("%d of %d sessions are sampled", sampled, n)
	}
	for _, ratio := range []float64{0, 1} {
		r.SetRatio(ratio)
		if got := r.Trace(nil).Sampled(); got != (ratio == 1) {
			t.Errorf("with ratio %v sampled is %v", ratio, got)
		}
		if !r.Trace(parent(record.TraceSampled)).Sampled() || r.Trace(parent(0)).Sampled() {
			t.Errorf("with ratio %v the client's flag is not respected", ratio)
		}
	}
	r.end(parent(0), nil)
	if len(r.queue) != 0 {
		t.Error("a session is queued that is not sampled")
	}
}

// A collector that refuses costs a line of the log a minute, and its closing is not delayed.
func TestDeadCollector(t *testing.T) {
	r := newRig(t, 1, "http://"+wstest.FreeAddress(t)+"/v1/traces")
	for range 3 * batched {
		r.end(nil, nil)
	}
	log := r.close(wstest.Timeout)
	if n := strings.Count(log, "traces are lost"); n < 1 || n > 2 || !strings.Contains(log, "connection refused") { // the second one at the end
		t.Errorf("the log says %s", log)
	}
	lost := 0
	for line := range strings.Lines(log) {
		var n int
		_, after, _ := strings.Cut(line, "lost_sessions=")
		_, _ = fmt.Sscan(after, &n)
		lost += n
	}
	if lost != 3*batched {
		t.Errorf("%d sessions are lost; want %d", lost, 3*batched)
	}
}

// A collector that never answers blocks no session: those beyond the queues are left out immediately, and closing waits no longer than it may.
func TestSilentCollector(t *testing.T) {
	silent := make(chan struct{})
	c := newCollector(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
		return true
	})
	defer close(silent)
	r := newRig(t, 1, c.url)
	for range 2*queued + batched {
		r.end(nil, nil)
	}
	if n := r.exporter.dropped.Load(); n < queued/2 {
		t.Errorf("%d sessions were left out", n)
	}
	closed := make(chan string)
	go func() { closed <- r.close(10 * time.Millisecond) }()
	if log := wstest.Receive(t, closed, "the tracer closes"); !strings.Contains(log, "traces are lost") {
		t.Errorf("the log says %s", log)
	}
}

// failing is an exporter that fails while err is set.
type failing struct {
	tries int
	err   error
}

func (f *failing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { f.tries++; return f.err }
func (f *failing) Shutdown(context.Context) error                        { return nil }

// While exports fail, the exporter tries less and less often, and logs once a minute.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, log := &failing{err: errors.New("no route")}, new(bytes.Buffer)
		e := newExporter(to, "http://collector:4318/v1/traces", slog.New(slog.NewTextHandler(log, nil)), time.Now)
		e.dropped.Add(1)
		for range 600 { // ten minutes
			_ = e.ExportSpans(t.Context(), nil)
			e.dropped.Add(1)
			time.Sleep(time.Second)
		}
		if to.tries < 10 || to.tries > 20 {
			t.Errorf("%d exports were tried", to.tries)
		}
		if n := strings.Count(log.String(), "traces are lost"); n != 10 {
			t.Errorf("%d lines:\n%s", n, log)
		}
		log.Reset()
		to.err = nil
		time.Sleep(maxPause)
		_ = e.ExportSpans(t.Context(), nil)
		if !strings.Contains(log.String(), "traces are exported again") {
			t.Errorf("the log says %s", log)
		}
		log.Reset()
		_ = e.ExportSpans(t.Context(), nil)
		if log.Len() > 0 {
			t.Errorf("the log says %s", log)
		}
		e.closed()
	})
}

// What was lost while the collector was away for a moment is reported with the error, also once exports succeed again.
func TestLostMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, log := new(failing), new(bytes.Buffer)
		e := newExporter(to, "http://collector:4318/v1/traces", slog.New(slog.NewTextHandler(log, nil)), time.Now)
		export := func(err error, after time.Duration, spans ...sdk.ReadOnlySpan) {
			time.Sleep(after)
			to.err = err
			_ = e.ExportSpans(t.Context(), spans)
		}
		session := tracetest.SpanStub{Name: sessionSpan}.Snapshot()
		export(errors.New("no route"), 0, session) // logged
		export(nil, 2*time.Second)
		log.Reset()
		export(errors.New("no route"), 10*time.Second, session)
		export(nil, 2*time.Second)
		export(nil, time.Minute)
		if text := log.String(); !strings.Contains(text, `msg="traces are lost"`) || !strings.Contains(text, `error="no route"`) || strings.Contains(text, "faster than") {
			t.Errorf("the log says %s", text)
		}
		log.Reset()
		export(errors.New("no route"), time.Minute) // it cost no session
		export(nil, 2*time.Second)
		e.dropped.Add(1)
		export(nil, time.Minute)
		if text := log.String(); !strings.Contains(text, "faster than") || strings.Contains(text, "no route") {
			t.Errorf("the log says %s", text)
		}
		e.closed()
	})
}
