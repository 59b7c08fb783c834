// Package tracing exports a trace of each session over OpenTelemetry's protocol (OTLP over HTTP).
//
// A session's spans are made when it has ended, from its record, so that a running session keeps nothing but its place in the trace,
// and nothing runs when a frame passes. Records wait in a queue of limited size for one goroutine that makes the spans. When the
// collector is slow or away, what does not fit is counted and left out.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// queued is how many ended sessions may wait for their spans to be made.
	queued = 2048
	// batched is how many spans may wait for their export, and how many are exported at once.
	batched = 256
	// maxText is the longest attribute, in bytes.
	maxText = 512
)

// Options say where traces go.
type Options struct {
	// Endpoint is the collector's URL, with the path for traces. Headers, certificates, compression and the time-out come from the
	// environment: OTEL_EXPORTER_OTLP_HEADERS and the like.
	Endpoint string
	// Ratio is the share of sessions that are traced, from 0 to 1, of those whose clients sent no traceparent. The others follow their
	// clients' sampled flag.
	Ratio   float64
	Version string // of the proxy
	Log     *slog.Logger
}

// Tracer traces sessions. Its methods may be called from any goroutine.
type Tracer struct {
	sampler  atomic.Pointer[sdk.Sampler] // for sessions without a parent
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
	queue    chan finished
	quit     chan struct{}
	done     chan struct{} // closed when the goroutine that makes spans has ended
}

// finished is a session that has ended, or a client that got none.
type finished interface{ spans(t *Tracer) }

// ended is the record of a session that has ended.
type ended struct{ record.Record }

// refused is what is known of a client that got no session.
type refused struct{ record.Refused }

// Start returns a tracer, which Close ends. The collector need not be there yet.
func Start(o Options) (*Tracer, error) {
	// What the SDK has to say is either said by our exporter, or could quote a secret of the environment.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	c, err := newClient(o.Endpoint, o.Log)
	if err != nil {
		return nil, fmt.Errorf("exporting traces to %s: %w", o.Endpoint, err)
	}
	to, err := otlptrace.New(context.Background(), c)
	if err != nil {
		return nil, fmt.Errorf("exporting traces to %s: %w", o.Endpoint, err)
	}
	return start(o, newExporter(to, o.Endpoint, o.Log, time.Now)), nil
}

// start starts a tracer that exports with e.
func start(o Options, e *exporter) *Tracer {
	attributes, err := resource.New(context.Background(),
		resource.WithAttributes(semconv.ServiceName("wsbouncer"), semconv.ServiceVersion(o.Version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // last, so that it wins
	)
	if err != nil {
		o.Log.Warn("traces have not all attributes of OTEL_RESOURCE_ATTRIBUTES, which must be a list such as name=value,other=value")
	}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	t := &Tracer{
		exporter: e, queue: make(chan finished, queued), quit: make(chan struct{}), done: make(chan struct{}),
		provider: sdk.NewTracerProvider(
			sdk.WithResource(attributes), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(generator{}), sdk.WithRawSpanLimits(limits),
			sdk.WithBatcher(e, sdk.WithMaxQueueSize(batched), sdk.WithMaxExportBatchSize(batched), sdk.WithBlocking()),
		),
	}
	t.tracer = t.provider.Tracer("github.com/wsbouncer/wsbouncer", trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	t.SetRatio(o.Ratio)
	go t.run()
	return t
}

// SetRatio changes the share of sessions that are traced, for those that begin from now on.
func (t *Tracer) SetRatio(ratio float64) {
	sampler := sdk.TraceIDRatioBased(ratio)
	t.sampler.Store(&sampler)
}

// Trace is for [admission.Options]: it gives a session its spans' ids, and decides whether the session is sampled. It keeps client.
func (t *Tracer) Trace(client *record.Trace) *record.Trace {
	own := client
	if own == nil {
		own = &record.Trace{Flags: record.TraceRandom}
		random(own.ID[:8])
		random(own.ID[8:])
		if (*t.sampler.Load()).ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: own.ID}).Decision == sdk.RecordAndSample {
			own.Flags |= record.TraceSampled
		}
	}
	random(own.Session[:])
	random(own.Lease[:])
	return own
}

// Ended is for [relay.Options]: it queues a session's record. It does not wait.
func (t *Tracer) Ended(r *record.Record) {
	if r.Trace.Sampled() {
		t.enqueue(&ended{*r})
	}
}

// Refused is for [admission.Options]: it queues a client that a service refused. It does not wait.
func (t *Tracer) Refused(r *record.Refused) {
	if r.Trace.Sampled() && r.Service != "" {
		t.enqueue(&refused{*r})
	}
}

func (t *Tracer) enqueue(f finished) {
	select {
	case t.queue <- f:
	default:
		t.exporter.dropped.Add(1)
	}
}

// run makes spans until Close is called and the queue is empty.
func (t *Tracer) run() {
	defer close(t.done)
	for {
		select {
		case f := <-t.queue:
			t.make(f)
			continue
		default:
		}
		select {
		case f := <-t.queue:
			t.make(f)
		case <-t.quit:
			if len(t.queue) == 0 {
				return
			}
		}
	}
}

// make makes the spans, unless they would be dropped.
func (t *Tracer) make(f finished) {
	if t.exporter.away() {
		t.exporter.dropped.Add(1)
		return
	}
	f.spans(t)
}

// Close exports what waits. When ctx ends, it drops the rest. No session may end after that.
func (t *Tracer) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, t.exporter.abort)
	defer stop()
	t.exporter.last()
	close(t.quit)
	<-t.done // the exporter does not block it for longer than ctx
	_ = t.provider.Shutdown(context.Background())
	t.exporter.closed()
}

// random fills b, of 8 bytes, with a number that is not zero.
func random(b []byte) {
	n := rand.Uint64()
	for range 8 {
		b[0], b, n = byte(n), b[1:], n>>8
	}
}
