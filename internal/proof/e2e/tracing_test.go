//go:build unix

package e2e

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestTracing has the real program trace the session of an ordinary client for a collector, from the client's span to the server's, and
// flush the trace when it ends.
func TestTracing(t *testing.T) {
	t.Parallel()
	const traceID, parentID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	requests := make(chan *tracepb.TracesData, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := new(tracepb.TracesData)
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		requests <- request
	}))
	t.Cleanup(collector.Close)
	parents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		kind, message, _ := c.Read(r.Context())
		_ = c.Write(r.Context(), kind, message)
		_, _, _ = c.Read(r.Context())
	}))
	t.Cleanup(server.Close)
	p := startProxy(t, "--backend", "ws"+strings.TrimPrefix(server.URL, "http"), "--path", "/v1/stt", "--pass", "header:traceparent", "--warm", "0",
		"--otlp-endpoint", collector.URL, "--trace-ratio", "0")

	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	client, response, err := websocket.Dial(ctx, p.url("/v1/stt"), &websocket.DialOptions{
		HTTPHeader: http.Header{"Traceparent": {"00-" + traceID + "-" + parentID + "-01"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseNow()
	if err := client.Write(ctx, websocket.MessageBinary, make([]byte, 3200)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if out := runCommand(t, "session", "ls", "--admin", p.admin, "--sort", "rate", "--output", "json"); !strings.Contains(out.stdout, `"trace_id": "`+traceID+`"`) {
		t.Errorf("the stream of events has the session without its trace: %s %s", out.stdout, out.stderr)
	}
	if err := client.Close(websocket.StatusNormalClosure, "thanks"); err != nil {
		t.Fatal(err)
	}
	p.awaitLog("session ended")
	p.signal(syscall.SIGTERM)
	p.wait(0)

	spans := make(map[string]*tracepb.Span)
	for _, resource := range wstest.Receive(t, requests, "the trace").GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				spans[s.GetName()] = s
				if hex.EncodeToString(s.GetTraceId()) != traceID || s.GetStartTimeUnixNano() > s.GetEndTimeUnixNano() {
					t.Errorf("span %v", s)
				}
			}
		}
	}
	whole, leased, queued := spans["session"], spans["leased"], spans["queued"]
	if whole == nil || leased == nil || queued == nil || hex.EncodeToString(whole.GetParentSpanId()) != parentID ||
		string(leased.GetParentSpanId()) != string(whole.GetSpanId()) || string(queued.GetParentSpanId()) != string(whole.GetSpanId()) {
		t.Fatalf("spans %v", spans)
	}
	if got, want := wstest.Receive(t, parents, "the server's header"), "00-"+traceID+"-"+hex.EncodeToString(leased.GetSpanId())+"-01"; got != want {
		t.Errorf("the server got the traceparent %q; want %q", got, want)
	}
	id := ""
	for _, a := range whole.GetAttributes() {
		if a.GetKey() == "wsbouncer.session.id" {
			id = a.GetValue().GetStringValue()
		}
	}
	if id == "" || id != response.Header.Get("X-Wsbouncer-Session-Id") {
		t.Errorf("the span is of session %q; the client's is %q", id, response.Header.Get("X-Wsbouncer-Session-Id"))
	}
}
