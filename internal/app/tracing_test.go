package app

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// Unless the settings name a collector, sessions are not told of traces, and nothing runs.
func TestTracingIsOff(t *testing.T) {
	for _, endpoint := range []string{"", "off"} {
		s := validSettings()
		s.OTLPEndpoint = endpoint
		p, o, before := &Proxy{settings: s, log: slog.New(slog.DiscardHandler)}, session.Options{}, runtime.NumGoroutine()
		p.startTracing(&o)
		if o.Admission.Trace != nil || o.Relay.Ended != nil || p.tracer != nil || runtime.NumGoroutine() > before {
			t.Errorf("endpoint %q: %+v, %d goroutines, %d before", endpoint, o, runtime.NumGoroutine(), before)
		}
		p.endTracing()
	}
}

// What else wants to hear of ended sessions still does, and variables that make no sense together cost the traces, not the proxy.
func TestTracingIsOn(t *testing.T) {
	s, log := validSettings(), new(bytes.Buffer)
	s.OTLPEndpoint = "http://127.0.0.1:1"
	p, o, told := &Proxy{settings: s, log: slog.New(slog.NewTextHandler(log, nil))}, session.Options{}, 0
	o.Relay.Ended = func(*record.Record) { told++ }
	o.Admission.Refused = func(*record.Refused) { told++ }
	p.startTracing(&o)
	if o.Admission.Trace == nil || p.tracer == nil {
		t.Fatalf("options %+v", o)
	}
	o.Relay.Ended(new(record.Record))
	if o.Admission.Refused(new(record.Refused)); told != 2 {
		t.Error("the others were not told")
	}
	p.endTracing()

	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", securetest.NewAuthority(t).File())
	p, o = &Proxy{settings: s, log: slog.New(slog.NewTextHandler(log, nil))}, session.Options{}
	p.startTracing(&o)
	if o.Admission.Trace != nil || p.tracer != nil || !strings.Contains(log.String(), "sessions are not traced") {
		t.Errorf("options %+v; the log says %s", o, log)
	}
	p.endTracing()
}
