package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// hostile is a text that would show itself if it ever became HTML.
const hostile = `<img src=x onerror="document.title='owned'">`

// fakeProxy is an admin API with numbers that the test chooses, and the dashboard.
type fakeProxy struct {
	t       *testing.T
	address string

	mu        sync.Mutex
	server    *http.Server
	streams   map[chan event]api.EventQuery
	stats     api.Stats
	whole     *api.Stats // of all proxies; nil for a proxy without a fleet
	sessions  []api.Session
	ended     []api.Session
	audit     []api.Action
	history   api.History
	token     string
	reader    string // a token for reading only; empty for none
	readOnly  bool
	holdEnds  chan struct{}     // the list of ended sessions comes when it is closed; nil to send it immediately
	holdWho   chan struct{}     // whom the proxy takes the page for comes when it is closed; nil to send it immediately
	restarted bool              // the process knows no ended session, and the file of the ones before it has them
	requests  []string          // changes: method, path with query, body
	contents  map[string]string // answers about the configuration, by the path
	fails     map[string]bool   // paths for which the proxy is too busy
	asked     map[string]int    // requests by the path
}

type event struct {
	name string
	data any
}

func startFake(t *testing.T) *fakeProxy {
	t.Helper()
	f := &fakeProxy{t: t, streams: make(map[chan event]api.EventQuery), fails: make(map[string]bool), asked: make(map[string]int)}
	f.fill()
	f.listen(wstest.FreeAddress(t))
	t.Cleanup(f.stop)
	return f
}

func (f *fakeProxy) url() string { return "http://" + f.address + "/" }

// listen serves the API; also again at the same address after stop.
func (f *fakeProxy) listen(address string) {
	f.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = listener.Addr().String()
	server := &http.Server{Handler: f.handler()}
	f.mu.Lock()
	f.server = server
	f.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
}

// stop ends the proxy as a crash does.
func (f *fakeProxy) stop() {
	f.mu.Lock()
	server := f.server
	for stream := range f.streams {
		close(stream)
		delete(f.streams, stream)
	}
	f.mu.Unlock()
	server.Close()
}

// fill makes a proxy with three backends: one that is well, one with an open circuit, one that drains.
func (f *fakeProxy) fill() {
	now := time.Now().UTC()
	healthy := api.Health{Reachable: true, Since: now.Add(-time.Hour), Circuit: "closed", Probe: "up", RoundTripSeconds: 0.00042, Canary: "up", CanarySeconds: 0.34}
	broken := api.Health{
		Reachable: false, Since: now.Add(-2 * time.Minute), Reason: "connection refused " + hostile,
		Circuit: "open", CircuitSince: now.Add(-2 * time.Minute), CircuitReason: "5 failures in a row", CircuitOpened: 3, Probe: "off", Broken: 7,
		Canary: "down", CanarySeconds: 0.41, CanaryReason: "no result within 10s " + hostile,
	}
	f.stats = api.Stats{
		Version: "v1.2.3", UptimeSeconds: 4000, Replay: &api.Replay{MemoryBytes: 12 << 20, LimitBytes: 1 << 30},
		Services: []api.Service{
			{Name: "calm", Path: "/calm", Profile: "echo", Balance: "random-two", Utilisation: 0.25, Queue: api.Queue{Limit: 10}},
			{Name: "stt", Path: "/v1/stt", Profile: "vosk", Balance: "least-loaded", Utilisation: 1.0625, Failover: &api.ServiceFailover{
				Mode: "replay", Verdict: "visible", StallTimeoutSeconds: 3,
			}, Queue: api.Queue{
				Limit: 200, Waiting: 3, OldestSeconds: 4.2, Totals: api.QueueTotals{TimedOut: 5, Left: 2, Full: 1},
			}},
		},
		Tenants: []api.Tenant{
			{Name: "acme", Share: 2, Sessions: 18, Waiting: 1, Totals: api.TenantTotals{Sessions: 1100, Queued: 40, TimedOut: 4}, Services: []api.TenantService{
				{Service: "stt", Sessions: 18, Waiting: 1, Guaranteed: 8, Kept: 6},
			}},
			{Name: "idle", Share: 1},
			{Name: hostile, Unconfigured: true, Share: 0.5, Sessions: 2, Waiting: 2, Totals: api.TenantTotals{Sessions: 90, Full: 1, Evicted: 1}},
		},
		OtherTenants: api.OtherTenants{Count: 3, Sessions: 3, Waiting: 2},
		Backends: []api.Backend{
			{Name: "gpu-1", Service: "stt", URL: "ws://10.0.0.1:2700", Profile: "vosk", Health: healthy, Pool: api.Pool{
				State: "enabled", Usable: true, Cap: 32, Ceiling: 24, Warm: 4, Weight: 1, Ramp: 1, Dialing: 1, Idle: 3, Leased: 20, Resetting: 2, Retiring: 1,
			}, Stalls: 3, Moved: 6, NotMoved: 1, LagSeconds: 2.3, MedianLagSeconds: 0.1},
			{Name: hostile, Service: "stt", URL: "ws://10.0.0.2:2700", Profile: "vosk", Health: broken, Pool: api.Pool{
				State: "enabled", Cap: 32, Ceiling: 32, Warm: 4, Weight: 1, Ramp: 1,
			}},
			{Name: "gpu-3", Service: "calm", URL: "ws://10.0.0.3:2700", Profile: "echo", Health: healthy, Pool: api.Pool{
				State: "enabled", Usable: true, Cap: 16, Ceiling: 16, Warm: 4, Weight: 1, Ramp: 1, Idle: 4, Leased: 4,
			}},
			{Name: "gpu-4", Service: "calm", URL: "ws://10.0.0.4:2700", Profile: "echo", Health: healthy, Pool: api.Pool{
				State: "draining", Usable: true, Cap: 16, Ceiling: 16, Warm: 4, Weight: 1, Ramp: 1, Leased: 2,
			}},
		},
		Configuration: api.Configuration{Source: "sqlite:wsbouncer.db", Version: "7", State: "current", Since: now, Applied: now.Add(-time.Minute)},
		TLS: &api.TLS{
			Certificates: []api.Certificate{
				{File: "/etc/wsbouncer/new.pem", Names: []string{"*.example.com"}, NotAfter: now.Add(61*24*time.Hour + time.Hour), State: api.CertificateValid},
				{File: "/etc/wsbouncer/old.pem", Listener: api.ListenerAdmin, Names: []string{"stt.example.com", "10.0.0.1"}, NotAfter: now.Add(-time.Hour), State: api.CertificateExpired},
			},
			Failure: "the key does not fit", Handshakes: []api.TLSHandshakes{{Result: "full", Version: "1.3", Count: 1100}, {Result: "resumed", Version: "1.3", Count: 134}, {Result: "refused-by-client", Version: "1.3", Count: 7}},
		},
		Sessions: api.Sessions{Active: 26, Total: 1234, Refused: map[int]uint64{503: 4}, Ended: map[uint16]uint64{1000: 1200, 1011: 8}},
		Loops:    api.Loops{Awake: 1, Loops: []api.Loop{{Awake: true, Connections: 60, Busy: 0.2}}},
	}
	f.stats.Problems = []api.Problem{
		{Kind: "service-waiting", Level: api.LevelWarning, Hurts: api.HurtsClients, What: "service stt", Service: "stt", Text: "3 clients wait, the first for 4.2s", Since: now.Add(-2 * time.Minute), Cure: "wsbouncer backend add NAME URL --connections N --service stt"},
		{Kind: "backend-slow", Level: api.LevelWarning, Hurts: api.HurtsClients, What: "backend gpu-3", Service: "calm", Backend: "gpu-3", Text: "slow: its first reply takes 900ms", Since: now.Add(-time.Minute)},
		{Kind: "backend-unreachable", Level: api.LevelFailure, Hurts: api.HurtsSoon, What: "backend " + hostile, Service: "stt", Backend: hostile, Text: "circuit open: `connection` refused " + hostile, Since: now.Add(-2 * time.Minute), Cure: "wsbouncer backend recycle " + hostile},
	}
	diagnosis.Describe(&f.stats)
	f.stats.Backends[2].FirstReplySeconds, f.stats.Backends[2].FirstReplies = 0.9, 7
	for i := range 12 {
		f.sessions = append(f.sessions, api.Session{
			ID: fmt.Sprintf("q7m2kd4x-%d", 1000+i), Service: "stt", Backend: "gpu-1", Client: fmt.Sprintf("192.0.2.%d:4%03d", i+1, i), State: api.StateRelaying,
			Started: now.Add(-time.Duration(i) * time.Minute), AgeSeconds: float64(60 * i), FramesFromClient: uint64(100 * i), BytesFromClient: uint64(320_000 * i),
			FramesFromBackend: uint64(100 * i), BytesFromBackend: uint64(9_000 * i), FirstReplySeconds: 0.034, FramesPerSecond: float64(30 - i), LagSeconds: 0.05 * float64(i),
		})
	}
	f.sessions[2].Assured, f.sessions[2].KeptBytes, f.sessions[2].Failovers = true, 64<<10, 2
	f.sessions[3].Unassured = "the audio is older than the window " + hostile
	for i := range 3 {
		f.sessions = append(f.sessions, api.Session{
			ID: fmt.Sprintf("q7m2kd4x-%d", 2000+i), Service: "stt", Client: fmt.Sprintf("198.51.100.%d:555", i+1), Tenant: hostile, State: api.StateWaiting,
			Started: now.Add(-4 * time.Second), AgeSeconds: 4.2 - float64(i), WaitedSeconds: 4.2 - float64(i), Place: i + 1,
		})
	}
	for i := range 6 {
		s := api.Session{
			ID: fmt.Sprintf("q7m2kd4x-%d", 500+i), Service: "stt", Backend: "gpu-1", Client: "203.0.113.9:1", State: api.StateEnded, Started: now.Add(-time.Minute),
			Ended: now.Add(-time.Duration(i) * time.Second), By: "client", Code: 1000, Fate: "returned",
		}
		if i < 2 {
			s.Backend, s.By, s.Code, s.Reason, s.Fate = hostile, "backend", 1011, "lost "+hostile, "discarded"
		}
		f.ended = append(f.ended, s)
	}
	f.audit = []api.Action{{Time: now.Add(-time.Minute), Action: "kill", Target: "q7m2kd4x-9", Result: api.ResultDone, Who: "alice", Why: hostile, Role: api.RoleOperator, Caller: "user alice (uid 1000)", From: "admin socket", Detail: "1 session"}}
	f.contents = map[string]string{
		api.ConfigPath: `{"version": "7", "services": {"stt": {"path": "/v1/stt"}}, "backends": {"gpu-1": {"connections": 32}}, "profiles": {}, "tenants": {"acme": {"share": 2}}, "keys": {"phone": {"tenant": "acme"}}}`,
		api.ConfigPath + "/history": `[
			{"version": "7", "at": "2026-11-22T10:00:00Z", "who": "alice", "why": "more load", "edits": [{"action": "changed", "kind": "backend", "name": "gpu-1", "field": "connections", "from": "16", "to": "32"}]},
			{"version": "6", "at": "2026-11-22T09:00:00Z", "who": "bob", "edits": [{"action": "added", "kind": "backend", "name": "gpu-1", "values": {"connections": "16"}}]},
			{"version": "5", "at": "2026-11-22T08:00:00Z", "who": "bob", "edits": []}]`,
		api.ConfigPath + "/versions/7": `{"version": "7", "services": {"stt": {"path": "/v1/stt"}}, "backends": {"gpu-1": {"connections": 32, "labels": {"zone": "a"}}}, "profiles": {},
			"tenants": {"acme": {"share": 2}}, "keys": {"phone": {"tenant": "acme"}}}`,
		api.ConfigPath + "/versions/6": `{"version": "6", "services": {"stt": {"path": "/v1/stt"}}, "backends": {"gpu-1": {"connections": 16, "labels": {"zone": "a"}}}, "profiles": {}}`,
		api.ConfigPath + "/versions/5": `{"version": "5", "services": {"stt": {"path": "/v1/stt"}}, "backends": {}, "profiles": {}}`,
	}
	f.history.IntervalSeconds = 10
	for i := range 360 {
		f.history.Points = append(f.history.Points, api.Point{
			Time: now.Add(-time.Duration(360-i) * 10 * time.Second), Sessions: 20 + float64(i%7), Waiting: float64(i % 4), SessionsPerSecond: 5.5,
			FramesPerSecond: 300 + float64(i%30), Failed: uint64(i / 358), Moved: uint64(i / 357), NotMoved: uint64(i / 359), FirstReplySeconds: 0.03,
		})
	}
}

// failoverOf returns the failover of a session that moved; nil for another.
func (f *fakeProxy) failoverOf(s *api.Session) *api.Failover {
	if s.Failovers == 0 {
		return nil
	}
	return &api.Failover{
		Assured: true, KeptBytes: s.KeptBytes, MemoryBytes: 96 << 10, AudioSeconds: 12.34, AnsweredSeconds: 10.2,
		Moves: []api.Move{
			{Time: time.Now().Add(-time.Minute), From: "gpu-3", To: hostile, Cause: "stalled", ReplayedSeconds: 2.04, TookSeconds: 0.31},
			{Time: time.Now(), From: hostile, To: "gpu-1", Cause: "drained"},
		},
	}
}

// update changes the numbers under the lock and sends the streams what a real proxy sends at an interval.
func (f *fakeProxy) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	diagnosis.Describe(&f.stats)
	for stream, query := range f.streams {
		f.send(stream, query)
	}
}

// send queues an interval's events. The caller holds mu. A stream that is not read by the test's browser loses them.
func (f *fakeProxy) send(stream chan event, query api.EventQuery) {
	chosen, matched := query.Choose(f.sessions)
	list := api.SessionList{Sessions: chosen, Matched: matched, Total: len(f.sessions)}
	for _, e := range []event{{api.EventStats, f.stats}, {api.EventSessions, list}} {
		data, _ := json.Marshal(e.data)
		select {
		case stream <- event{e.name, json.RawMessage(data)}:
		default:
		}
	}
}

func (f *fakeProxy) handler() http.Handler {
	mux := http.NewServeMux()
	page := Handler()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /static/", page)
	mux.HandleFunc("GET "+api.EventsPath, f.serveEvents)
	mux.HandleFunc("GET "+api.AccessPath, func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		held := f.holdWho
		f.mu.Unlock()
		if held != nil {
			<-held
		}
		access := api.Access{Role: api.RoleOperator, Caller: "this machine", From: r.RemoteAddr, Commands: "unix:/run/admin.sock"}
		switch bearer(r) {
		case f.token:
			access.Caller = "operator token"
		case f.reader:
			access.Role, access.Caller = api.RoleReader, "reader token"
		}
		f.answer(w, access)
	})
	mux.HandleFunc("GET "+api.StatsPath, func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answer(w, f.whole)
	})
	mux.HandleFunc("GET "+api.ProblemsPath, func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := api.ProblemList{Problems: f.stats.Problems, Unsaved: "the disk is full"}
		var seenBy []string
		if r.URL.Query().Has(api.FleetParameter) {
			seenBy = []string{"proxy-b"}
		}
		for i := range 10 {
			p := f.stats.Problems[i%len(f.stats.Problems)]
			p.Since, p.Proxies = p.Since.Add(-time.Duration(i+1)*time.Hour), seenBy
			list.Past = append(list.Past, api.PastProblem{Problem: p, Ended: p.Since.Add(63 * time.Second)})
		}
		f.answer(w, list)
	})
	mux.HandleFunc("GET "+api.SessionsPath, func(w http.ResponseWriter, r *http.Request) {
		values := r.URL.Query()
		inFleet := values.Has(api.FleetParameter)
		values.Del(api.FleetParameter)
		q, err := api.ParseSessionQuery(values)
		if err != nil {
			f.refuse(w, http.StatusBadRequest, api.KindRequest, err.Error())
			return
		}
		f.mu.Lock()
		if held := f.holdEnds; held != nil && q.State == api.StateEnded {
			f.mu.Unlock()
			<-held
			f.mu.Lock()
		}
		defer f.mu.Unlock()
		all := f.sessions
		if q.State == api.StateEnded {
			all = f.ended
		}
		chosen, matched := q.Choose(all)
		for i := range chosen {
			if inFleet {
				chosen[i].Proxy = []string{"proxy-a", "proxy-b " + hostile}[i%2]
			}
		}
		f.answer(w, api.SessionList{Sessions: chosen, Matched: matched, Total: len(f.sessions)})
	})
	mux.HandleFunc("GET "+api.SessionsPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, s := range append(f.sessions[:len(f.sessions):len(f.sessions)], f.ended...) {
			if s.ID == r.PathValue("id") {
				f.answer(w, api.SessionDetail{
					Failover: f.failoverOf(&s), Session: s, Path: "/v1/stt/" + hostile, Profile: "vosk", Before: f.ended[:2],
					Server: &api.Connection{ID: "q7m2kd4x-c17", State: "leased", AgeSeconds: 400, Sessions: 9, Boundary: "the client's end of stream"},
				})
				return
			}
		}
		f.refuse(w, http.StatusNotFound, api.KindUnknown, fmt.Sprintf("unknown session %q", r.PathValue("id")))
	})
	for path := range f.contents {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.answer(w, json.RawMessage(f.contents[path]))
		})
	}
	mux.HandleFunc("/", f.serveChange)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		token, reader, fails := f.token, f.reader, f.fails[r.URL.Path]
		f.asked[r.URL.Path]++
		f.mu.Unlock()
		known := bearer(r) != "" && (bearer(r) == token || bearer(r) == reader)
		if token != "" && strings.HasPrefix(r.URL.Path, "/api/") && !known {
			f.refuse(w, http.StatusUnauthorized, api.KindRefused, "the admin API needs a token (Authorization: Bearer TOKEN)")
			return
		}
		if fails {
			f.refuse(w, http.StatusServiceUnavailable, api.KindBusy, "too busy")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// bearer returns a request's token; empty for none.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func (f *fakeProxy) serveEvents(w http.ResponseWriter, r *http.Request) {
	query, err := api.ParseEventQuery(r.URL.Query())
	if err != nil {
		f.refuse(w, http.StatusBadRequest, api.KindRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := make(chan event, 64)
	f.mu.Lock()
	stream <- event{api.EventHistory, f.history}
	if !f.restarted {
		stream <- event{api.EventEnded, f.ended}
	}
	stream <- event{api.EventAudit, f.audit}
	f.send(stream, query)
	f.streams[stream] = query
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, stream)
		f.mu.Unlock()
	}()
	fmt.Fprint(w, "retry: 2000\n\n:\n\n")
	for {
		select {
		case e, ok := <-stream:
			if !ok {
				return
			}
			data, _ := json.Marshal(e.data)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, data)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// serveChange notes everything else: the actions.
func (f *fakeProxy) serveChange(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		f.refuse(w, http.StatusNotFound, api.KindUnknown, "unknown path "+r.URL.Path)
		return
	}
	if r.Header.Get(api.ChangeHeader) == "" || r.Header.Get("Content-Type") != "application/json" {
		f.refuse(w, http.StatusForbidden, api.KindRefused, "the request has no header "+api.ChangeHeader)
		return
	}
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	if f.readOnly && strings.HasPrefix(r.URL.Path, api.ConfigPath) {
		f.refuse(w, http.StatusForbidden, "read-only", "the configuration is read-only")
		return
	}
	if strings.HasPrefix(r.URL.Path, api.ConfigPath) {
		f.answer(w, map[string]any{"version": "8", "edits": []any{}})
		return
	}
	f.answer(w, api.Outcome{Text: "done: " + r.Method + " " + r.URL.Path, Sessions: 1})
}

func (f *fakeProxy) answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fakeProxy) refuse(w http.ResponseWriter, status int, kind, text string) {
	var failure api.Failure
	failure.Error.Kind, failure.Error.Text = kind, text
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(failure)
}

// changes returns the changes so far.
func (f *fakeProxy) changes() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.requests, "\n")
}
