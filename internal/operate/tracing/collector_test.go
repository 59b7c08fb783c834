package tracing

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// collector is an OTLP collector of the test's own.
type collector struct {
	t        *testing.T
	url      string
	requests chan *tracepb.TracesData
}

// newCollector starts a collector. answer, which may be nil, answers a request before its body is read, and returns true if it did.
func newCollector(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *collector {
	c := &collector{t: t, requests: make(chan *tracepb.TracesData, 64)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != nil && answer(w, r) {
			return
		}
		body, err := io.ReadAll(r.Body)
		request := new(tracepb.TracesData)
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s, %s: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
		}
		c.requests <- request
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/v1/traces"
	return c
}

// all returns the spans of the next request.
func (c *collector) all() (all []span) {
	c.t.Helper()
	for _, resource := range wstest.Receive(c.t, c.requests, "spans").GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				all = append(all, span{s, values(s.GetAttributes()), values(resource.GetResource().GetAttributes())})
			}
		}
	}
	return all
}

// spans returns the spans of the next request by name, of which there must be one each.
func (c *collector) spans() map[string]span {
	c.t.Helper()
	found := make(map[string]span)
	for _, s := range c.all() {
		if _, twice := found[s.GetName()]; twice {
			c.t.Errorf("there are two spans %q", s.GetName())
		}
		found[s.GetName()] = s
	}
	return found
}

// span is a span with its attributes by name.
type span struct {
	*tracepb.Span
	attributes, resource map[string]any
}

func values(list []*commonpb.KeyValue) map[string]any {
	all := make(map[string]any)
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = v.IntValue
		}
	}
	return all
}
