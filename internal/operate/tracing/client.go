package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

const (
	defaultTimeout = 10 * time.Second // of one request
	// A request that the collector refuses for the moment is repeated, after firstRetry at first and lastRetry at most, for up to retryFor.
	firstRetry, lastRetry, retryFor = 500 * time.Millisecond, 2 * time.Second, 5 * time.Second
)

// client sends spans to a collector. OpenTelemetry's own client (otlptracehttp) would bring gRPC and grpc-gateway, of which it uses nothing
// (https://github.com/open-telemetry/opentelemetry-go/issues/2579). It is static.
type client struct {
	endpoint string
	header   http.Header
	sent     secret.Sent // what the header may have of secrets
	gzip     bool
	http     *http.Client
}

// newClient returns a client that obeys the standard variables for exporters. Those that are wrong are logged and ignored.
func newClient(endpoint string, log *slog.Logger) (*client, error) {
	c := &client{endpoint: endpoint, header: make(http.Header), http: &http.Client{Timeout: defaultTimeout}}
	c.header.Set("User-Agent", "OTel OTLP Exporter Go/"+otlptrace.Version())
	name, text := variable("HEADERS")
	for pair := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(value)
		switch {
		case text == "":
		case !found, err != nil, key == "", strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
			log.Warn("a header for traces is ignored: use name=value, percent-encoded and separated by commas", "variable", name) // it may be a secret
		default:
			c.header.Set(key, strings.TrimSpace(value))
			c.sent.AddHeader(value)
		}
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	if _, text := variable("COMPRESSION"); text == "gzip" {
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	}
	if name, text := variable("TIMEOUT"); text != "" {
		if milliseconds, err := strconv.Atoi(text); err == nil {
			c.http.Timeout = time.Duration(milliseconds) * time.Millisecond
		} else {
			log.Warn("a time-out for traces is ignored: use a number of milliseconds", "variable", name, "value", text)
		}
	}
	config := tlsConfig(log)
	if config != nil && strings.HasPrefix(endpoint, "http:") {
		return nil, errors.New("certificates are set for a collector without TLS: use https, or unset OTEL_EXPORTER_OTLP_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	c.http.Transport = transport
	return c, nil
}

// tlsConfig returns the certificates that the variables name; nil for none.
func tlsConfig(log *slog.Logger) *tls.Config {
	var config *tls.Config
	if name, file := variable("CERTIFICATE"); file != "" {
		authorities := x509.NewCertPool()
		if text, err := os.ReadFile(file); err == nil && authorities.AppendCertsFromPEM(text) {
			config = &tls.Config{RootCAs: authorities}
		} else {
			log.Warn("the collector's authorities are ignored: the file has no certificate in PEM form that can be read", "variable", name, "file", file)
		}
	}
	name, file := variable("CLIENT_CERTIFICATE")
	if _, key := variable("CLIENT_KEY"); file != "" && key != "" {
		if certificate, err := tls.LoadX509KeyPair(file, key); err == nil {
			if config == nil {
				config = new(tls.Config)
			}
			config.Certificates = []tls.Certificate{certificate}
		} else {
			log.Warn("the certificate for the collector is ignored", "variable", name, "error", err)
		}
	}
	return config
}

// variable returns the value of a standard variable: the one for traces if it is set, otherwise the one for everything.
func variable(what string) (name, text string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if text = strings.TrimSpace(os.Getenv(prefix + what)); text != "" {
			return prefix + what, text
		}
	}
	return "", ""
}

// Start implements [otlptrace.Client].
func (c *client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client].
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // the same bytes as an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // to memory
		_ = w.Close()
		body = b.Bytes()
	}
	begun := time.Now()
	for pause := firstRetry; ; pause = min(pause*3/2, lastRetry) {
		after, again, err := c.post(ctx, body)
		if err == nil || !again || ctx.Err() != nil || time.Since(begun)+after > retryFor {
			return err
		}
		if !tasks.Sleep(ctx, max(after, pause/2+rand.N(pause))) {
			return err
		}
	}
}

// post sends a request. If it fails, again reports whether another may succeed, and after how long the collector wants that at the earliest.
func (c *client) post(ctx context.Context, body []byte) (after time.Duration, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	request.Header = c.header.Clone()
	answer, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		return 0, errors.As(err, &failed) && failed.Temporary(), err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxText))
	if answer.StatusCode/100 == 2 {
		return 0, false, err
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return retryAfter(answer.Header.Get("Retry-After")), again, errors.New(c.sent.Mask(fmt.Sprintf("the collector answered %s: %s", answer.Status, bytes.TrimSpace(text)), true))
}

// retryAfter reads a number of seconds, or a time.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
