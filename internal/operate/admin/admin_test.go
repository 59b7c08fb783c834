package admin_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/metrics"
)

func TestHandler(t *testing.T) {
	oneOfTwo := admin.Readiness{Services: []admin.ServiceReadiness{{Name: "stt"}, {Name: "tts", Reason: "refused"}}}
	rig := start(t)
	for _, c := range []struct {
		name, method, path string
		ready              admin.Readiness
		status             int
		contentType        string // the beginning
		body               string // a part
	}{
		{name: "alive", path: "/healthz", status: 200, contentType: "text/plain", body: "ok\n"},
		{
			name: "alive though not ready", path: "/healthz", ready: admin.Readiness{Reason: "draining", AllServices: true},
			status: 200, contentType: "text/plain", body: "ok\n",
		},
		{name: "ready", path: "/readyz", status: 200, contentType: "text/plain", body: "ready\n"},
		{
			name: "ready although a service is not", path: "/readyz", ready: oneOfTwo,
			status: 200, contentType: "text/plain", body: "ready\nready: service stt\nnot ready: service tts: refused\n",
		},
		{name: "ready by service", path: "/readyz?service=stt", ready: oneOfTwo, status: 200, body: "ready: service stt\n"},
		{name: "not ready by service", path: "/readyz?service=tts", ready: oneOfTwo, status: 503, body: "not ready: service tts: refused\n"},
		{name: "no such service", path: "/readyz?service=mt", ready: oneOfTwo, status: 404, body: "no service \"mt\"\n"},
		{name: "no name of a service", path: "/readyz?service=", ready: oneOfTwo, status: 404, body: "no service \"\"\n"},
		{
			name: "not ready", path: "/readyz", ready: admin.Readiness{Reason: "no service can serve", Services: oneOfTwo.Services[1:]},
			status: 503, contentType: "text/plain", body: "not ready: no service can serve\nnot ready: service tts: refused\n",
		},
		{
			name: "draining", path: "/readyz?service=stt", ready: admin.Readiness{Reason: "draining", AllServices: true, Services: oneOfTwo.Services},
			status: 503, body: "not ready: service stt: draining\n",
		},
		{name: "statistics", path: "/api/v1/stats", status: 200, contentType: "application/json", body: `"version": "v1.2.3"`},
		{
			name: "metrics", path: "/metrics", status: 200, contentType: "text/plain; version=0.0.4",
			body: "\nwsbouncer_build_info{version=\"v1.2.3\"} 1\n",
		},
		{name: "one metric", path: "/metrics?name[]=wsbouncer_sessions_total", status: 200, body: "\nwsbouncer_sessions_total 9\n"},
		{name: "root", path: "/", status: 200, contentType: "text/plain", body: "/healthz /readyz /api/v1/stats /api/v1/config /metrics\n"},
		{name: "root in its head", method: "HEAD", path: "/", status: 200, contentType: "text/plain"},
		{name: "configuration", path: "/api/v1/config", status: 200, body: "configuration: GET /api/v1/config"},
		{name: "configuration's change", method: "POST", path: "/api/v1/config/changes", status: 200, body: "configuration: POST /api/v1/config/changes"},
		{name: "no such page", path: "/api/v1/stat", status: 404, contentType: "application/json", body: `did you mean \"/api/v1/stats\"`},
		{name: "below a page", path: "/metrics/", status: 404},
		{name: "reading only: statistics", method: "POST", path: "/api/v1/stats", status: 405, body: `unknown method \"POST\" for /api/v1/stats: use one of GET, HEAD`},
		{name: "reading only: metrics", method: "PUT", path: "/metrics", status: 405},
		{name: "reading only: root", method: "DELETE", path: "/", status: 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig.ready = c.ready
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			response, body := rig.ask(t, method, c.path)
			if response.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%s, %q; want %d, %q", response.Status, body, c.status, c.body)
			}
			if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, c.contentType) {
				t.Errorf("content type %q; want %q", got, c.contentType)
			}
			if c.status == http.StatusMethodNotAllowed && response.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("allowed: %q", response.Header.Get("Allow"))
			}
		})
	}
}

// TestStatisticsAreWhole decodes the statistics with the types they were made of.
func TestStatisticsAreWhole(t *testing.T) {
	rig := start(t)
	response, body := rig.ask(t, http.MethodGet, "/api/v1/stats")
	var got api.Stats
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, rig.stats) {
		t.Errorf("decoded:\n%+v\nwant:\n%+v", got, rig.stats)
	}
	if cached := response.Header.Get("Cache-Control"); cached != "no-store" {
		t.Errorf("Cache-Control: %q", cached)
	}
}

// TestNoHalfStatistics: what cannot be written as JSON is an error, and not a 200 without a body.
func TestNoHalfStatistics(t *testing.T) {
	rig := start(t)
	rig.stats.UptimeSeconds = math.NaN()
	if response, body := rig.ask(t, http.MethodGet, "/api/v1/stats"); response.StatusCode != 500 || !strings.Contains(body, "NaN") {
		t.Errorf("%s, %q", response.Status, body)
	}
}

// rig is an API and what it shows. Its fields are changed between requests only.
type rig struct {
	server *httptest.Server
	ready  admin.Readiness
	stats  api.Stats
	level  string // of the log

	fixedLevel error // why the level of the log cannot change
}

func start(t *testing.T) *rig {
	rig := &rig{stats: busy(), level: "info"}
	read := func() api.Stats { return rig.stats }
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(func() metrics.Snapshot { return metrics.Snapshot{Stats: rig.stats} }))
	rig.server = httptest.NewServer(admin.Handler(admin.Source{
		Ready:   func() admin.Readiness { return rig.ready },
		Stats:   read,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		Configuration: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "configuration: "+r.Method+" "+r.URL.Path)
		}),
		Audit: admin.NewAudit(slog.New(slog.DiscardHandler)),
		LogLevel: admin.LogLevel{
			Get: func() string { return rig.level }, Set: func(level string) error { rig.level = level; return rig.fixedLevel },
			Allowed: []string{"debug", "info", "warn", "error"},
		},
	}, admin.Access{Trusted: func(*http.Request) string { return api.RoleOperator }}))
	t.Cleanup(rig.server.Close)
	return rig
}

func (r *rig) ask(t *testing.T, method, path string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequest(method, r.server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(api.ChangeHeader, "1")
	response, err := r.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// busy is statistics in which every kind of field has something.
func busy() api.Stats {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return api.Stats{
		Version: "v1.2.3", UptimeSeconds: 12.5, Draining: true,
		AccessLog: api.AccessLog{Lines: 12, LeftOut: 1},
		Services: []api.Service{{
			Name: "stt", Path: "/v1/stt", Profile: "echo", Balance: "hash",
			Queue: api.Queue{
				Limit: 100, Waiting: 2, OldestSeconds: 0.25,
				Totals: api.QueueTotals{Queued: 9, Served: 4, TimedOut: 1, Left: 2, Full: 7, WaitedSeconds: 3.5},
			},
		}},
		Backends: []api.Backend{{
			URL: "ws://gpu-1:2700", Profile: "echo", Retired: 5,
			Health: api.Health{
				Since: since, Reason: "refused", Circuit: "open", CircuitSince: since.Add(time.Second), CircuitReason: "refused",
				CircuitOpened: 3, Probe: "down", ProbeSince: since.Add(time.Minute), ProbeReason: "503", Broken: 6,
				RoundTripSeconds: 0.001,
			},
			Pool: api.Pool{
				State: "enabled", Usable: true, Cap: 32, Warm: 8, Weight: 1.5, Ramp: 0.5,
				Dialing: 1, Idle: 2, Leased: 3, Resetting: 4, Retiring: 5,
				Totals: api.Totals{
					Dialed: 20, DialFailed: 2, Leased: 12, Returned: 5, Discarded: 4, RetiredIdle: 1,
					Reasons: map[string]uint64{"served": 3, "silent": 1, "shutdown": 1},
				},
			},
		}},
		Sessions: api.Sessions{
			Active: 3, Total: 9, Refused: map[int]uint64{404: 1, 503: 8}, Ended: map[uint16]uint64{1000: 5, 4008: 1},
		},
		Relayed: api.Relayed{FramesFromClients: 1, BytesFromClients: 2, FramesFromBackends: 3, BytesFromBackends: 1<<53 + 1},
		Loops:   api.Loops{Awake: 1, Moved: 6, Loops: []api.Loop{{ID: 0, Awake: true, Connections: 17, Busy: 0.75}, {ID: 1}}},
	}
}
