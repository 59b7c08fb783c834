package admission_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// healthRig is a rig with a health path, all of whose connections are in use, and what it is told about being ready.
func healthRig(t *testing.T) (r *rig, notReady *atomic.Pointer[error]) {
	t.Helper()
	notReady = new(atomic.Pointer[error])
	r = newRig(t, setup{
		Profile: "echo", Queue: 1, Script: &wstest.Server{Serve: wstest.Echo},
		Service: func(s *route.Service) { s.Path = "" }, // which has any path
		Gate: func(o *admission.Options) {
			o.Health = admission.Health{Path: "/healthz", Ready: func() error {
				if err := notReady.Load(); err != nil {
					return *err
				}
				return nil
			}}
		},
	})
	return r, notReady
}

// Load balancers get their answer although all places are taken and the queue is full, and are no clients.
func TestHealthPath(t *testing.T) {
	r, notReady := healthRig(t)
	r.Join("X-Path: /") // of the service, which has every path
	r.Connect(wstest.UpgradeRequest("/anything"))
	wstest.Eventually(t, "the queue is full", func() bool { return r.Group.Queue().Waiting == 1 })
	draining := errors.New("draining")
	for _, c := range []struct {
		name, request string
		notReady      *error
		status        int
		body          string
	}{
		{"ready", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", nil, 200, "ok\n"},
		{"not ready", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", &draining, 503, "draining\n"},
		{"HEAD", "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", nil, 200, ""},
		{"HEAD, not ready", "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", &draining, 503, ""},
		{"an old load balancer", "GET /healthz HTTP/1.0\r\n\r\n", nil, 200, "ok\n"},
		{"HAProxy's httpchk", "OPTIONS /healthz HTTP/1.0\r\n\r\n", nil, 200, "ok\n"},
		{"with a query", "GET /healthz?from=lb HTTP/1.1\r\nHost: x\r\n\r\n", nil, 200, "ok\n"},
		{"with the whole URL", "GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", nil, 200, "ok\n"},
		{"kept alive", "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", nil, 200, "ok\n"},
		{"an upgrade", wstest.UpgradeRequest("/healthz"), nil, 200, "ok\n"},
		{"two at once", strings.Repeat("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 2), nil, 200, "ok\n"},
		{"another method", "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", nil, 405, "use GET or HEAD\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			notReady.Store(c.notReady)
			answer, err := io.ReadAll(r.Connect(c.request)) // the connection is closed after it
			if err != nil {
				t.Fatal(err)
			}
			method, _, _ := strings.Cut(c.request, " ")
			response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			if _, body, _ := strings.Cut(string(answer), "\r\n\r\n"); response.StatusCode != c.status || body != c.body {
				t.Errorf("%s %q; want %d %q", response.Status, body, c.status, c.body)
			}
			if !response.Close || response.Header.Get(record.IDHeader) != "" || response.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("header: %v, closes: %v", response.Header, response.Close)
			}
		})
	}
	if s := r.stats(); len(s.Refused) > 0 || s.Total != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// Without a health path, the services have all paths; with one, they have all others.
func TestHealthPathIsExact(t *testing.T) {
	r, _ := healthRig(t)
	for _, path := range []string{"/healthz/", "/Healthz", "/health"} {
		p, response := r.Request("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if response.StatusCode != 426 {
			t.Errorf("%s: %s; want what a service says", path, response.Status)
		}
		_ = p.Close()
	}
}
