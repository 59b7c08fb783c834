package relay

import (
	"encoding/hex"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	valid    = "00-" + traceID + "-" + parentID + "-01"
)

// traced is what the proxy's own tracing makes of every session.
func traced(client *record.Trace) *record.Trace {
	own := &record.Trace{ID: [16]byte{15: 9}, Flags: record.TraceSampled, Session: [8]byte{7: 1}, Lease: [8]byte{7: 2}}
	if client != nil {
		own.ID, own.Parent, own.State, own.Flags = client.ID, client.Parent, client.State, client.Flags
	}
	return own
}

// A service that passes the header tells the server of the proxy's span, on connections that are dialed for one client. A client
// that says nothing of a trace shares connections as before.
func TestTraceIsPassed(t *testing.T) {
	const fromClient, own = "00-" + traceID + "-0000000000000002-01", "00-00000000000000000000000000000009-0000000000000002-01"
	for _, c := range []struct {
		name               string
		pass               []string
		off, always        bool // the proxy does not trace; each client gets a connection of its own
		header             []string
		traceparent, state string // that the server gets
		shared             bool   // over a connection that was dialed in advance
	}{
		{name: "nothing is passed", header: []string{"Traceparent: " + valid}, shared: true},
		{name: "no trace", pass: []string{"header:traceparent"}, shared: true},
		{name: "the client's, the proxy in between", pass: []string{"header:traceparent"}, header: []string{"Traceparent: " + valid}, traceparent: fromClient},
		{name: "not the state", pass: []string{"header:traceparent"}, header: []string{"Traceparent: " + valid, "Tracestate: a=1"}, traceparent: fromClient},
		{
			name: "with the state", pass: []string{"header:traceparent", "header:tracestate"},
			header: []string{"Traceparent: " + valid, "Tracestate: a=1"}, traceparent: fromClient, state: "a=1",
		},
		{
			name: "an invalid one begins another trace", pass: []string{"header:traceparent", "header:tracestate"},
			header: []string{"Traceparent: " + valid[:54], "Tracestate: a=1"}, traceparent: own,
		},
		{name: "the connection is the client's own anyway", pass: []string{"header:traceparent"}, always: true, traceparent: own},
		{name: "but it is not passed", pass: []string{"query"}, always: true},
		{
			name: "no tracing: as the client wrote it", pass: []string{"header:traceparent", "header:tracestate"}, off: true,
			header: []string{"Traceparent: " + valid, "Tracestate: a=1"}, traceparent: valid, state: "a=1",
		},
		{name: "no tracing: even nonsense", pass: []string{"header:traceparent"}, off: true, header: []string{"Traceparent: x"}, traceparent: "x"},
		{name: "no tracing and nothing said", pass: []string{"header:traceparent"}, off: true, always: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := profile.ParsePass(c.pass)
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, setup{
				Cap: 2, Queue: 1,
				Service: func(s *route.Service) {
					one, _ := profile.Named("one-shot")
					s.Passing = &profile.HandshakePolicy{Profile: one, Pass: rules, AlwaysPrivate: c.always}
				},
				Backend: func(o *backend.Options) { o.Settings.Warm = 1 },
				Gate: func(o *admission.Options) {
					if !c.off {
						o.Trace = traced
					}
				},
			})
			r.Ready(1)
			shared := r.Accepted()
			client := r.askFor("", c.header...)
			if c.shared {
				talk(t, client, shared, "hello")
				return
			}
			server := r.Accepted()
			if got := server.Request.Header.Get("Traceparent"); got != c.traceparent {
				t.Errorf("the server got the traceparent %q; want %q", got, c.traceparent)
			}
			if got := server.Request.Header.Get("Tracestate"); got != c.state {
				t.Errorf("the server got the tracestate %q; want %q", got, c.state)
			}
			talk(t, client, server, "hello")
		})
	}
}

// The record of a session has its trace when its end is reported.
func TestEndedGetsTheRecord(t *testing.T) {
	ended := make(chan record.Record, 1)
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}}, func(o *Options) {
		o.Ended = func(record *record.Record) {
			if record.Service.Name != "test" {
				t.Errorf("service %q", record.Service.Name)
			}
			ended <- *record
		}
	})
	client := r.Join("Traceparent: " + valid)
	client.Ask("hello")
	client.SendClose(4001, "bye")
	client.ExpectClose(4001, "bye")
	_ = client.Close()
	record := wstest.Receive(t, ended, "the record")
	if record.Trace == nil || hex.EncodeToString(record.Trace.ID[:]) != traceID || record.Code != 4001 || record.Relayed.FramesFromBackends != 1 {
		t.Errorf("record %+v", record)
	}
}

// A sampled session's trace has the times at which the server was ready and first replied.
func TestTraceHasTimes(t *testing.T) {
	for _, sampled := range []bool{true, false} {
		ended := make(chan record.Record, 1)
		r := newRig(t, setup{Profile: "whisperlive", Gate: func(o *admission.Options) {
			o.Trace = func(client *record.Trace) *record.Trace {
				own := traced(client)
				if !sampled {
					own.Flags = 0
				}
				return own
			}
		}}, func(o *Options) { o.Ended = func(record *record.Record) { ended <- *record } })
		client, server := r.Session()
		client.Send(frame.Text, `{"uid":"x"}`)
		server.Expect(frame.Text, `{"uid":"x"}`)
		server.Send(frame.Text, `{"message":"SERVER_READY"}`)
		client.Expect(frame.Text, `{"message":"SERVER_READY"}`)
		_ = client.Close()
		_ = server.Close()
		record := wstest.Receive(t, ended, "the record")
		ready, replied := record.Trace.Ready, record.Trace.Replied
		if ready.IsZero() == sampled || replied.IsZero() == sampled || ready.Before(record.Leased) && sampled || ready.After(record.Ended) {
			t.Errorf("sampled %v: ready %v, replied %v; leased %v, ended %v", sampled, ready, replied, record.Leased, record.Ended)
		}
	}
}

// A refused client's trace is told, too. An id that is not recorded is not shown.
func TestRefusedHasItsTrace(t *testing.T) {
	refusedOnes := make(chan record.Refused, 1)
	r := newRig(t, setup{Gate: func(o *admission.Options) {
		o.Trace, o.Refused = traced, func(c *record.Refused) { refusedOnes <- *c }
	}})
	p, _ := r.Request(wstest.UpgradeRequest("/v1/nothing", "Traceparent: "+valid))
	_ = p.Close()
	refused := wstest.Receive(t, refusedOnes, "the refused client")
	if refused.TraceID != traceID || !refused.Trace.Sampled() || refused.Arrived.IsZero() || refused.At.Before(refused.Arrived) {
		t.Errorf("refused: %+v", refused)
	}
	for _, c := range []struct {
		trace *record.Trace
		shown bool
	}{
		{nil, false},
		{&record.Trace{ID: [16]byte{1}, Parent: [8]byte{1}}, true},
		{&record.Trace{ID: [16]byte{1}, Session: [8]byte{1}}, false},
		{&record.Trace{ID: [16]byte{1}, Session: [8]byte{1}, Flags: record.TraceSampled}, true},
	} {
		if record := (&record.Record{Trace: c.trace}); (record.TraceID() != "") != c.shown {
			t.Errorf("%+v is shown as %q", c.trace, record.TraceID())
		}
	}
}
