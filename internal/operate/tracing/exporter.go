package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// After a failed export, nothing is exported for minPause, twice as long after each further one, and at most for maxPause.
	minPause, maxPause = time.Second, time.Minute
	// logInterval is the least time between two log lines about lost traces.
	logInterval = time.Minute
)

// errTooFast is why sessions lack spans though every export succeeds.
var errTooFast = errors.New("sessions end faster than they can be exported")

// exporter gives spans to another exporter. While that fails, it drops them without trying, for a while, and says so in the log. The SDK
// calls ExportSpans from one goroutine at a time.
type exporter struct {
	to       sdk.SpanExporter
	endpoint string
	log      *slog.Logger
	now      func() time.Time

	dropped   atomic.Uint64 // sessions for which no spans were made, since the last log line
	retryAt   atomic.Int64  // nothing is exported before; Unix time in nanoseconds
	closing   atomic.Bool   // each batch is tried
	abort     context.CancelFunc
	aborted   context.Context
	lost      uint64        // sessions in dropped spans since the last log line
	err       error         // of the last export; nil if it succeeded
	cause     error         // of the last export that failed since the last log line, if sessions were lost around it
	pause     time.Duration // after the last failed export
	logged    time.Time     // when the last line about lost traces was logged
	announced bool          // the log has a line about failing
}

func newExporter(to sdk.SpanExporter, endpoint string, log *slog.Logger, now func() time.Time) *exporter {
	e := &exporter{to: to, endpoint: endpoint, log: log, now: now}
	e.aborted, e.abort = context.WithCancel(context.Background())
	return e
}

// ExportSpans implements [sdk.SpanExporter].
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if e.aborted.Err() != nil || e.away() {
		e.lose(spans)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.aborted, cancel)
	err := e.to.ExportSpans(ctx, spans)
	stop()
	cancel()
	if e.err = err; err != nil {
		e.cause = err
		e.pause = min(max(2*e.pause, minPause), maxPause)
		e.retryAt.Store(e.now().Add(e.pause).UnixNano())
		e.lose(spans)
		return nil
	}
	if e.pause = 0; e.lost == 0 && e.dropped.Load() == 0 {
		e.cause = nil // it cost nothing
	}
	if e.announced {
		e.announced = false
		e.log.Info("traces are exported again", "endpoint", e.endpoint, "lost_sessions", e.takeLost())
	}
	e.report()
	return nil
}

// away reports whether spans would be dropped, because an export has failed not long ago. Any goroutine may call it.
func (e *exporter) away() bool { return !e.closing.Load() && e.now().UnixNano() < e.retryAt.Load() }

// lose counts the sessions of dropped spans.
func (e *exporter) lose(spans []sdk.ReadOnlySpan) {
	for _, s := range spans {
		if s.Name() == sessionSpan {
			e.lost++
		}
	}
	e.report()
}

// report logs lost traces, not too often.
func (e *exporter) report() {
	now := e.now()
	if e.lost == 0 && e.dropped.Load() == 0 || now.Sub(e.logged) < logInterval {
		return
	}
	e.logged = now
	e.logLost()
}

func (e *exporter) logLost() {
	cause := e.err
	if e.announced = cause != nil; cause == nil {
		cause = e.cause // the collector is back
	}
	if cause == nil {
		cause = errTooFast
	}
	e.log.Warn("traces are lost", "endpoint", e.endpoint, "lost_sessions", e.takeLost(), "error", cause)
}

func (e *exporter) takeLost() uint64 {
	lost := e.lost + e.dropped.Swap(0)
	e.lost, e.cause = 0, nil
	return lost
}

// last makes the exporter try each batch from now on, because there is no later.
func (e *exporter) last() { e.closing.Store(true) }

// closed logs what was lost since the last line. The exporter must not be used after that.
func (e *exporter) closed() {
	if e.lost > 0 || e.dropped.Load() > 0 {
		e.logLost()
	}
	e.abort()
}

// Shutdown implements [sdk.SpanExporter].
func (e *exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }
