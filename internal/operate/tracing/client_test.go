package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// transport answers requests instead of a collector.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// sent are spans to send.
var sent = []*tracepb.ResourceSpans{{SchemaUrl: "https://example.org/schema"}}

// A request is repeated while the collector is busy, as late as it wants and not for long, and not if it is refused permanently.
func TestRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		most   int // requests
		least  int
		after  time.Duration // after which the second one comes at the earliest
		within time.Duration // in which all have been sent
	}{
		"accepted":              {status: 200, least: 1, most: 1},
		"bad":                   {status: 400, least: 1, most: 1},
		"busy":                  {status: 503, least: 4, most: 16, after: firstRetry / 2, within: retryFor + 2*lastRetry},
		"busy for two seconds":  {status: 429, header: http.Header{"Retry-After": {"2"}}, least: 2, most: 3, after: 2 * time.Second, within: retryFor},
		"busy for a minute":     {status: 429, header: http.Header{"Retry-After": {"60"}}, least: 1, most: 1},
		"busy until a time":     {status: 504, header: http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:03 GMT"}}, least: 2, most: 8, after: 3 * time.Second, within: retryFor + 2*lastRetry},
		"no route, for a while": {least: 4, most: 16, within: retryFor + 2*lastRetry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its time begins with the year 2000
				client, err := newClient("http://collector/v1/traces", slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				var at []time.Duration
				client.http.Transport = transport(func(r *http.Request) (*http.Response, error) {
					at = append(at, time.Since(begun))
					body, err := io.ReadAll(r.Body)
					if got := new(tracepb.TracesData); err != nil || proto.Unmarshal(body, got) != nil || len(got.GetResourceSpans()) != 1 {
						t.Errorf("request %d: %v, %v", len(at), got, err)
					}
					if c.status == 0 {
						return nil, context.DeadlineExceeded
					}
					return &http.Response{StatusCode: c.status, Header: c.header, Body: io.NopCloser(strings.NewReader("because"))}, nil
				})
				err = client.UploadTraces(t.Context(), sent)
				if (err == nil) != (c.status == 200) || c.status > 200 && !strings.Contains(err.Error(), "because") {
					t.Errorf("it returns %v", err)
				}
				if n := len(at); n < c.least || n > c.most || n > 1 && at[1] < c.after || at[n-1] > c.within {
					t.Errorf("requests at %v", at)
				}
			})
		})
	}
}

// A collector that repeats the header's secret does not bring it into the log.
func TestCollectorRepeatsTheSecret(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20CANARY-TOKEN")
	client, err := newClient("http://collector/v1/traces", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client.http.Transport = transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 401, Status: "401 no", Body: io.NopCloser(strings.NewReader("bad token: " + r.Header.Get("Authorization")))}, nil
	})
	if err := client.UploadTraces(t.Context(), sent); err == nil || strings.Contains(err.Error(), "CANARY") || !strings.Contains(err.Error(), "401 no: bad token") {
		t.Errorf("it returns %v", err)
	}
}

// Nothing is waited for when the proxy ends.
func TestRepeatingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := newClient("http://collector/v1/traces", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		client.http.Transport = transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"4"}}, Body: http.NoBody}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := client.UploadTraces(ctx, sent); err == nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// The standard variables hold; the one for traces wins.
func TestVariables(t *testing.T) {
	authority := securetest.NewAuthority(t)
	serverSide, _ := authority.Loopback()
	serverSide.ClientAuth, serverSide.ClientCAs = tls.RequireAndVerifyClientCert, authority.Pool()
	got := make(chan http.Header, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err == nil {
			var body []byte
			if body, err = io.ReadAll(unzipped); err == nil {
				err = proto.Unmarshal(body, new(tracepb.TracesData))
			}
		}
		if err != nil {
			t.Error(err)
		}
		got <- r.Header
	}))
	server.TLS = serverSide
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate, key := securetest.Files(t, authority.Issue(nil, "client"))
	for name, text := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "x-general=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Authorization=Bearer%20abc, x-tenant = a=b ,User-Agent=mine",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": authority.File(), "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": certificate, "OTEL_EXPORTER_OTLP_CLIENT_KEY": key,
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TIMEOUT": "62500",
	} {
		t.Setenv(name, text)
	}
	log := new(bytes.Buffer)
	client, err := newClient(server.URL+"/v1/traces", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil || log.Len() > 0 || client.http.Timeout != 62500*time.Millisecond {
		t.Fatalf("%v, time-out %v, the log says %s", err, client.http.Timeout, log)
	}
	defer func() { _ = client.Stop(t.Context()) }()
	if err := client.UploadTraces(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	header := <-got
	for name, want := range map[string]string{
		"Authorization": "Bearer abc", "X-Tenant": "a=b", "User-Agent": "mine", "X-General": "", "Content-Type": "application/x-protobuf",
	} {
		if header.Get(name) != want {
			t.Errorf("%s is %q; want %q", name, header.Get(name), want)
		}
	}
}

// Wrong variables are warnings that quote no secret. Certificates are not left out silently where nothing is encrypted.
func TestWrongVariables(t *testing.T) {
	for name, text := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer secret=,=secret,secret,x=%zsecret", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere.pem",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nowhere.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/nowhere.pem", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
	} {
		t.Setenv(name, text)
	}
	log := new(bytes.Buffer)
	client, err := newClient("https://127.0.0.1:1/v1/traces", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil || client.http.Timeout != defaultTimeout || len(client.header) != 2 {
		t.Errorf("%v, time-out %v, %v", err, client.http.Timeout, client.header)
	}
	if n := strings.Count(log.String(), "\n"); n != 7 || strings.Contains(log.String(), "secret") {
		t.Errorf("%d lines:\n%s", n, log)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", securetest.NewAuthority(t).File())
	if _, err := newClient("http://127.0.0.1:1/v1/traces", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("certificates are ignored for http")
	}
}
