package app

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/operate/tracing"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// flushTimeout bounds how long the proxy waits at its end until the last traces are exported.
const flushTimeout = 3 * time.Second

// startTracing makes sessions be traced if the settings ask for it, in addition to what o says of Ended and Refused. Clients are served
// even if that is not possible.
func (p *Proxy) startTracing(o *session.Options) {
	endpoint := p.settings.TracesURL()
	if endpoint == "" {
		return
	}
	tracer, err := tracing.Start(tracing.Options{Endpoint: endpoint, Ratio: p.settings.TraceRatio, Version: p.version, Log: p.log})
	if err != nil {
		p.log.Error("sessions are not traced", "error", err)
		return
	}
	p.log.Info("tracing sessions", "endpoint", endpoint, "ratio", p.settings.TraceRatio)
	p.tracer = tracer
	o.Admission.Trace = tracer.Trace
	ended, refused := o.Relay.Ended, o.Admission.Refused
	o.Relay.Ended = func(r *record.Record) {
		ended(r)
		tracer.Ended(r)
	}
	o.Admission.Refused = func(r *record.Refused) {
		refused(r)
		tracer.Refused(r)
	}
}

// endTracing exports the last traces. No session may be left.
func (p *Proxy) endTracing() {
	if p.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	p.tracer.Close(ctx)
}
