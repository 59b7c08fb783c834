package metrics

import (
	_ "embed"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
)

// TestScrape holds a scrape of busy statistics against the text that Prometheus is to get, in testdata.
func TestScrape(t *testing.T) {
	if err := testutil.CollectAndCompare(fixed(busy()), strings.NewReader(busyText)); err != nil {
		t.Error(err)
	}
}

//go:embed testdata/busy.txt
var busyText string

// busy is the statistics of a proxy with two services, one backend that does well, one that is in trouble, and two loops.
// No two numbers beside small ones are equal, so that none is taken for another.
func busy() Snapshot {
	well := api.Backend{
		Name: "gpu-1", Service: "stt", URL: "ws://10.0.0.1:2700/stt", Profile: "echo",
		Health: api.Health{
			Reachable: true, Circuit: "closed", Probe: "up", Canary: "up", CanarySeconds: 0.5, Broken: 17, RoundTripSeconds: 0.00125,
		},
		LagSeconds: 0.875, OwedSeconds: 0.75, FirstReplyOwedSeconds: 16.5, Overdue: &api.Overdue{Sessions: 2, Unreplied: 1},
		Places:    &api.Places{Grant: 38, Granted: 62, Cap: 64, Needs: 57, Others: []api.PlaceHolder{{ID: "9", Name: "b", Places: 24, Needs: 21}}},
		Published: &api.Published{Total: 48, Used: new(int), Strangers: 9, At: time.Unix(1763807000, 0)},
		Pool: api.Pool{
			State: "enabled", Usable: true, Cap: 64, Ceiling: 40, Limit: 38, Warm: 24, Weight: 1.5, Ramp: 1,
			Dialing: 2, Idle: 11, Leased: 31, Resetting: 5, Retiring: 3,
			Totals: api.Totals{
				Dialed: 1001, DialFailed: 12, Refused: 19, Leased: 5003, Returned: 4040, Discarded: 927, RetiredIdle: 22,
				Reasons: map[string]uint64{
					"served": 801, "unclean": 41, "cut": 42, "closed": 43, "lost": 7, "broken": 1,
					"unsolicited": 2, "silent": 3, "reset_failed": 4, "aged": 5, "worn_out": 0, "surplus": 0,
				},
			},
		},
	}
	*well.Published.Used = 47
	troubled := api.Backend{
		Name: "gpu-2", Service: "stt", URL: `ws://gpu-2:2700/?model="de"&x=\`, Profile: "one-shot",
		Health: api.Health{
			Reachable: true, Circuit: "half-open", CircuitOpened: 6, CircuitReason: "5 sessions in a row were broken",
			Outlier: true, Outliers: 21, OutlierReason: "8 of its last 9 sessions failed",
			Probe: "down", ProbeReason: "503", Canary: "off",
		},
		Pool: api.Pool{
			State: "draining", Cap: 32, Ceiling: 32, Limit: 32, Weight: 0.5, Ramp: 0.25, Dialing: 1,
			Totals: api.Totals{
				DialFailed: 77, RetiredIdle: 9,
				Reasons: map[string]uint64{"worn_out": 0, "surplus": 1, "suspected": 6, "withdrawn": 2},
			},
		},
	}
	turns := meter.Distribution{
		Bounds: []time.Duration{200 * time.Microsecond, time.Millisecond}, Counts: [13]uint64{1201, 3, 1}, Sum: 0.0625,
	}
	return Snapshot{Meters: busyMeters(), Turns: turns, Stats: api.Stats{
		Configuration: api.Configuration{
			Source: "postgres://wsbouncer@db/wsbouncer", Version: "43", State: "stale", Since: time.UnixMilli(1795000000250), Reason: "refused",
			Applied: time.UnixMilli(1794999999500), Changes: 51, Failed: 8,
		},
		Leaving: []api.Leaving{{Name: "gpu-3", Service: "stt", URL: "ws://gpu-3", Leased: 10, Resetting: 2, Retiring: 4}},
		Discovery: []api.Discovery{
			{Backend: "gpu", Service: "stt", Host: "stt.svc", Records: "address", Servers: 3, Lookups: 420},
			{Backend: "old", Service: "stt", Host: "_stt._tcp.old", Records: "SRV", Failing: time.UnixMilli(1795000000250), Reason: "refused", Lookups: 430, Failures: 17},
		},
		Version: "v0.2.0-7-gabcdef1", UptimeSeconds: 86412.75, AccessLog: api.AccessLog{Lines: 5120, LeftOut: 3}, Draining: true,
		Fleet: &api.Fleet{
			Mode: api.FleetShare, Frozen: true, ExchangeSeconds: 0.0175,
			Proxies: []api.Proxy{
				{ID: "1", Name: "a", Self: true, State: "serving"},
				{ID: "9", Name: "b", State: "serving", SeenSeconds: 12.5},
				{ID: "3", Name: "a", State: "serving", SeenSeconds: 0.75},
				{ID: "4", Name: "c", State: "draining", SeenSeconds: 0.625},
			},
		},
		Replay: &api.Replay{MemoryBytes: 123 << 20, LimitBytes: 1 << 30},
		TLS: &api.TLS{
			Certificates: []api.Certificate{{File: "/etc/tls/stt.pem", NotAfter: time.UnixMilli(1797000000000)}}, Loaded: time.UnixMilli(1795000000500), Failure: "expired",
			Handshakes: []api.TLSHandshakes{{Result: "full", Version: "1.3", Count: 812}, {Result: "version", Version: "none", Count: 5}},
		},
		Services: []api.Service{
			{
				Name: "stt", Path: "/v1/stt", Profile: "echo", Balance: "least-loaded", Paused: true, Utilisation: 0.375,
				Affinity: &api.ServiceAffinity{Hits: 61, Misses: 5, Gone: 2, IDs: 77},
				Fleet:    api.ServiceDemand{Needs: 129, Capacity: 344, Waiting: 98, OldestSeconds: 6.5},
				Queue: api.Queue{
					Limit: 1000, Waiting: 71, OldestSeconds: 2.5,
					Totals: api.QueueTotals{
						Queued: 2222, Served: 2047, TimedOut: 88, Left: 13, TurnedAway: 1, Refused: 73, Full: 99, Evicted: 17, WaitedSeconds: 1234.5,
					},
				},
			},
			{Name: "any", Profile: "one-shot", Balance: "hash"},
		},
		Tenants: []api.Tenant{
			{
				Name: "acme", Share: 2, Sessions: 21, Waiting: 70,
				Totals: api.TenantTotals{Sessions: 4711, Queued: 2100, TimedOut: 80, Full: 90, Evicted: 16, Limited: 912},
			},
			{Name: "idle", Share: 1},
			{Name: "stranger", Unconfigured: true, Share: 1, Sessions: 3, Totals: api.TenantTotals{Sessions: 9}},
		},
		OtherTenants: api.OtherTenants{
			Count: 2, Sessions: 4, Waiting: 1, Totals: api.TenantTotals{Sessions: 12, Queued: 3, TimedOut: 1, Evicted: 1},
		},
		Backends: []api.Backend{well, troubled},
		Sessions: api.Sessions{
			Active: 33, Total: 5002,
			Refused: map[int]uint64{404: 8, 503: 187, 418: 1},
			Ended:   map[uint16]uint64{1000: 4900, 1006: 60, 1011: 9, 4008: 1},
			Handshakes: api.Handshakes{
				Unfinished: 512, Limit: 1024, Dropped: map[string]uint64{"oldest": 77, "address": 8000, "descriptors": 2},
			},
		},
		Authentication: api.Authentication{
			Results: []api.AuthResult{
				{Method: "keys", Result: "accepted", Count: 4321}, {Method: "keys", Result: "refused", Count: 65}, {Method: "none", Result: "refused", Count: 14},
			},
			Blocked: 234, Suspects: 2,
		},
		Limits: api.Limits{HeldBack: 5, Totals: []api.LimitTotal{
			{Limit: "session-limit", Scope: "client", Count: 17}, {Limit: "byte-rate", Scope: "tenant", Count: 6},
		}},
		Relayed: api.Relayed{
			FramesFromClients: 1 << 33, BytesFromClients: 1 << 43, FramesFromBackends: 1<<33 - 1, BytesFromBackends: 1<<43 - 1,
		},
		Loops: api.Loops{
			Awake: 1, Moved: 160,
			Loops: []api.Loop{{ID: 0, Awake: true, Connections: 81, Busy: 0.625}, {ID: 1}},
		},
	}}
}

// busyMeters is what was counted for a backend that has served sessions, and for one that has not.
func busyMeters() meter.Snapshot {
	r := meter.NewRegistry(1)
	well := r.Backend("stt", "gpu-1")
	r.Backend("stt", "gpu-2")
	*well.Relayed(0) = meter.Relayed{FramesFromClients: 1 << 32, BytesFromClients: 1 << 42, FramesFromBackends: 1<<32 - 1, BytesFromBackends: 1<<42 - 1}
	for range 301 {
		well.SessionBegan()
	}
	for range 302 {
		well.SessionEnded(meter.Client, 1000, meter.Normal)
	}
	for range 303 {
		well.SessionEnded(meter.Server, 4001, meter.Application)
	}
	well.SessionEnded(meter.Proxy, 1012, meter.Killed)
	for range 7 {
		well.FailedOver(meter.Lost, true)
	}
	well.FailedOver(meter.Stalled, false)
	well.BecameUnrecoverable(meter.UnrecoverableWindow)
	for range 6 {
		well.Stall()
	}
	for i, h := range []*meter.Histogram{&well.Wait, &well.FirstReply, &well.Session, &well.Dial, &well.Reset, &well.Ping} {
		for n := range i + 2 {
			h.Observe(time.Duration(n*n*40) * time.Millisecond)
		}
		h.Observe(5 * time.Hour)
	}
	return r.Snapshot(func(_ int, f func()) { f() })
}

// TestEmpty scrapes statistics that nothing is in: a proxy without backends still has its totals.
func TestEmpty(t *testing.T) {
	empty := fixed(Snapshot{Stats: api.Stats{Version: "(devel)"}})
	for name, want := range map[string]int{
		"wsbouncer_build_info":            1,
		"wsbouncer_sessions_active":       1,
		"wsbouncer_sessions_ended_total":  13,
		"wsbouncer_backend_connections":   0,
		"wsbouncer_backend_retired_total": 0,
		"wsbouncer_queue_waiting":         0,
		"wsbouncer_loop_awake":            0,
	} {
		if n := testutil.CollectAndCount(empty, name); n != want {
			t.Errorf("%s has %d series; want %d", name, n, want)
		}
	}
}

// A proxy that cannot reach the ledger sees no other: it does not show that they are not seen.
func TestUnseenWithoutLedger(t *testing.T) {
	for problem, want := range map[string]struct{ unseen, reached, seconds float64 }{"": {1, 1, 120}, "refused": {0, 0, -1}} {
		proxies := []api.Proxy{{ID: "1", Name: "a", Self: true, State: "serving"}, {ID: "2", Name: "b", State: "serving", SeenSeconds: 120}}
		registry, got := prometheus.NewRegistry(), map[string]float64{"wsbouncer_fleet_unseen_seconds": -1}
		registry.MustRegister(fixed(Snapshot{Stats: api.Stats{Fleet: &api.Fleet{Mode: api.FleetShare, Problem: problem, Proxies: proxies}}}))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			name := f.GetName()
			for _, m := range f.Metric {
				if name == "wsbouncer_fleet_proxies" {
					got[m.Label[0].GetValue()] = m.GetGauge().GetValue()
				} else if strings.HasPrefix(name, "wsbouncer_fleet_") {
					got[name] = m.GetGauge().GetValue()
				}
			}
		}
		if got["unseen"] != want.unseen || got["serving"] != 2-want.unseen || got["wsbouncer_fleet_ledger_reached"] != want.reached || got["wsbouncer_fleet_unseen_seconds"] != want.seconds {
			t.Errorf("with the problem %q: %v; want %+v", problem, got, want)
		}
	}
}

// TestStates names the states that the collector knows from elsewhere, and one that it does not know.
func TestStates(t *testing.T) {
	for i, state := range []health.CircuitState{health.Closed, health.HalfOpen, health.Open} {
		if circuitStates[i] != state.String() {
			t.Errorf("circuit state %q; want %q", circuitStates[i], state)
		}
	}
	got := make(map[string]float64)
	putState(func(value float64, labels ...string) { got[labels[0]] = value }, "new", "old", "older")
	if got["new"] != 1 || got["old"] != 0 || got["older"] != 0 || len(got) != 3 {
		t.Errorf("an unknown state gives %v", got)
	}
}

// TestOddNames: what an operator named in an odd way costs neither the scrape nor the process.
func TestOddNames(t *testing.T) {
	odd := Snapshot{Stats: api.Stats{Services: []api.Service{{Name: "stt", Path: "/\xff/\"\n"}}}}
	err := testutil.CollectAndCompare(fixed(odd), strings.NewReader(
		"# HELP wsbouncer_service_info Always 1, with the requested host and path (empty for any), profile and balance.\n"+
			"# TYPE wsbouncer_service_info gauge\n"+
			`wsbouncer_service_info{balance="",host="",path="/`+"\uFFFD"+`/\"\n",profile="",service="stt"} 1`+"\n"),
		"wsbouncer_service_info")
	if err != nil {
		t.Error(err)
	}
}

// Counters of tenants never fall, and count nothing twice, when one of them gets or loses its own series or a service is removed.
func TestTenantsOnlyGrow(t *testing.T) {
	var s Snapshot
	collector := New(func() Snapshot { return s })
	for _, c := range []struct {
		what      string
		now, want map[string]uint64 // sessions
	}{
		{"at first", map[string]uint64{"other": 100}, map[string]uint64{"other": 100}},
		{"zeta is added, had no session before, and five began", map[string]uint64{"zeta": 5, "other": 100}, map[string]uint64{"zeta": 5, "other": 100}},
		{"acme is added, and three sessions of the others began", map[string]uint64{"acme": 72, "zeta": 5, "other": 31}, map[string]uint64{"acme": 72, "zeta": 5, "other": 100}},
		{"all go on", map[string]uint64{"acme": 75, "zeta": 6, "other": 33}, map[string]uint64{"acme": 75, "zeta": 6, "other": 102}},
		{"acme is removed, and one session of it began", map[string]uint64{"zeta": 7, "other": 109}, map[string]uint64{"zeta": 7, "other": 103}},
		{"a service is removed", map[string]uint64{"zeta": 1, "other": 5}, map[string]uint64{"zeta": 7, "other": 103}},
		{"all go on again", map[string]uint64{"zeta": 3, "other": 6}, map[string]uint64{"zeta": 9, "other": 104}},
	} {
		s.Tenants = nil
		for name, n := range c.now {
			if name == "other" {
				s.OtherTenants.Totals.Sessions = n
			} else {
				s.Tenants = append(s.Tenants, api.Tenant{Name: name, Totals: api.TenantTotals{Sessions: n}})
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]uint64)
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "wsbouncer_tenant_sessions_total" {
					got[m.Label[0].GetValue()] = uint64(m.Counter.GetValue())
				}
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestLint holds the names and texts against the conventions of Prometheus.
func TestLint(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(fixed(busy()))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	for _, f := range families() {
		if !strings.HasSuffix(f.help, ".") {
			t.Errorf("%s: the help text is not a sentence: %s", f.name, f.help)
		}
	}
}

// fixed returns a collector of statistics that do not change.
func fixed(s Snapshot) prometheus.Collector { return New(func() Snapshot { return s }) }
