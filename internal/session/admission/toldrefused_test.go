package admission_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// Who was refused, and why, is told once, without anything secret.
func TestRefusedIsTold(t *testing.T) {
	told := make(chan record.Refused, 1)
	r := newRig(t, setup{Gate: func(o *admission.Options) { o.Refused = func(c *record.Refused) { told <- *c } }})
	const secret = "Authorization: Bearer s3cret"
	for _, c := range []struct {
		request string
		want    record.Refused
	}{
		{
			wstest.UpgradeRequest("/v2/test?token=s3cret", secret, "X-Request-Id: r-1", "Traceparent: "+traceparent),
			record.Refused{Path: "/v2/test", Status: 404, Reason: "there is no service for this path", RequestID: "r-1", TraceID: traceID},
		},
		{
			wstest.UpgradeRequest("/v2/%0Alevel=ERROR%1b[31m%ff", "X-Request-Id: two words"),
			record.Refused{Path: "/v2/\uFFFDlevel=ERROR\uFFFD[31m\uFFFD", Status: 404, Reason: "there is no service for this path"},
		},
		{
			wstest.UpgradeRequest("/v2/" + strings.Repeat("x", 3000)),
			record.Refused{Path: "/v2/" + strings.Repeat("x", 249) + "...", Status: 404, Reason: "there is no service for this path"},
		},
		{
			strings.Replace(wstest.UpgradeRequest("/v1/test"), "Sec-WebSocket-Key: ", "Sec-WebSocket-Key: s3cret", 1),
			record.Refused{Service: "test", Path: "/v1/test", Status: 400, Reason: "Sec-WebSocket-Key must be 16 bytes in base64"},
		},
		{"GET /?token=s3cret HTTP/9\r\n\r\n", record.Refused{Status: 400, Reason: "malformed HTTP request: the version is not HTTP/1.1"}},
	} {
		p, response := r.Request(c.request)
		got := wstest.Receive(t, told, "the refused client")
		c.want.Arrived, c.want.Trace = got.Arrived, got.Trace
		c.want.At, c.want.ID, c.want.Client = got.At, got.ID, origin.AddressOf(p.LocalAddr())
		if got != c.want {
			t.Errorf("%.60q: told\n%+v; want\n%+v", c.request, got, c.want)
		}
		if id := response.Header.Get(record.IDHeader); id != got.ID.String() || id == "" {
			t.Errorf("%.60q: the client got the id %q; told was %s", c.request, id, got.ID)
		}
		_ = p.Close()
		line := <-r.Log.Lines
		for line.Message != "client refused" {
			line = <-r.Log.Lines
		}
		if text := fmt.Sprint(line); strings.Contains(text, "s3cret") || line.Level != slog.LevelInfo || line.Attrs["id"].String() != got.ID.String() ||
			line.Attrs["status"].Int64() != int64(c.want.Status) || line.Attrs["reason"].String() != c.want.Reason {
			t.Errorf("logged %s", text)
		}
	}
	if got := r.stats().Refused[http.StatusNotFound]; got != 3 {
		t.Errorf("%d refusals with 404 are counted", got)
	}
}
