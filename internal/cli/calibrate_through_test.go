package cli

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/memory"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A backend that is calibrated via the proxy, such as a new one whose weight is still 0, is put back: after an interruption, when no other backend is left, and
// where the proxy does not do what it is told.
func TestCalibrateThrough(t *testing.T) {
	s := onProxy(t, open)
	face := simulated(t, sim.Options{Protocol: sim.Vosk}) // stands for the proxy's address for clients
	s.must("service add stt --profile vosk", "backend add gpu-2 ws://10.0.0.6:1 --connections 8", "backend add gpu-1 ws://10.0.0.5:1 --connections 8 --warm 3 --weight 0")
	before := s.must("config export")
	args := []string{"calibrate", face, "--through", "gpu-1", "--audio", shortSpeech(t), "--session", "2s", "--soak", "2s"}

	other := leased("gpu-2", "enabled", 0)
	other.Service = "stt"
	s.playing(func() api.Stats {
		s.stats = nil // from the second time on
		return backends(leased("gpu-1", "enabled", 0), other)
	})
	if status, _, messages := s.run(args...); status != 1 || !strings.Contains(messages, "gpu-1 is not drained") || !strings.Contains(messages, "backend gpu-1: put back") {
		t.Errorf("without an answer: status %d, %s", status, messages)
	}
	if after := s.must("config export"); after != before {
		t.Errorf("%s\nwant\n%s", after, before)
	}

	var died atomic.Bool         // gpu-2
	s.playing(func() api.Stats { // of a proxy that does what the configuration says at once
		content := s.present(t)
		other.Usable = !died.Load()
		return backends(leased("gpu-1", content.Backends["gpu-1"].State, 0), other)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := &canceller{word: "step 1", end: cancel}
	root := newRootCommand()
	root.SetArgs(append(args, s.where...))
	root.SetErr(interrupted)
	err := root.ExecuteContext(ctx)
	if err == nil || !strings.Contains(err.Error(), "interrupted in step 1") {
		t.Errorf("%v\n%s", err, interrupted)
	}
	for _, says := range []string{
		"  wsbouncer backend set gpu-1 --service stt --connections 8 --warm 3 --weight 0 --state enabled\n  wsbouncer service rm calibrate-gpu-1\n",
		"gpu-1: drained", "gpu-1: in its own service", "gpu-1: put back",
	} {
		if !strings.Contains(interrupted.String(), says) {
			t.Errorf("no %q in\n%s", says, interrupted)
		}
	}
	if after := s.must("config export"); after != before {
		t.Errorf("%s\nwant\n%s", after, before)
	}
	root = newRootCommand()
	root.SetArgs(append(args, s.where...))
	alone := &canceller{word: "step 1", end: func() { died.Store(true) }}
	root.SetErr(alone)
	err = root.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the service stt has no other backend that takes sessions now, which its clients need: the same command continues after step 1") {
		t.Errorf("%v\n%s", err, alone)
	}
	if after := s.must("config export"); after != before {
		t.Errorf("%s\nwant\n%s", after, before)
	}
	if status, _, messages := s.run(args...); status != 1 || !strings.Contains(messages, "the service stt has no other backend") || strings.Contains(messages, "is drained") {
		t.Errorf("status %d, %s", status, messages)
	}
	if history := s.must("config history"); !strings.Contains(history, "service calibrate-gpu-1: added (path /calibrate-") {
		t.Errorf("%s", history)
	}
}

// Nothing is changed for a backend that cannot be taken from its service.
func TestCalibrateThroughRefuses(t *testing.T) {
	s := onProxy(t, open)
	s.must("service add stt --profile vosk", "backend add gpu-1 ws://10.0.0.5:1 --connections 8", "backend add gpu-2 ws://10.0.0.6:1 --connections 8 --state draining",
		"backend add gpu-3 ws://gpus:1 --connections 8 --discover dns --weight 0",
		"service add calibrate-gpu-5 --path /calibrate-x --profile vosk", "backend add gpu-5 ws://10.0.0.7:1 --service calibrate-gpu-5 --connections 8")
	s.playing(func() api.Stats { return backends(leased("gpu-1", "enabled", 0), leased("gpu-2", "draining", 0)) })
	before := s.must("config export")
	for backend, says := range map[string]string{
		"gpu-1": "the service stt has no other backend that takes sessions now", "gpu-2": "the backend gpu-2 is draining", "gpu-3": "stands for several servers", "gpu-4": `unknown backend "gpu-4"`,
		"gpu-5": "the backend gpu-5 is in the service calibrate-gpu-5 of another calibration",
	} {
		status, _, messages := s.run("calibrate", "ws://127.0.0.1:1", "--through", backend, "--audio", "sample")
		if status != 1 || !strings.Contains(messages, says) {
			t.Errorf("%s: status %d, %s", backend, status, messages)
		}
	}
	if status, _, messages := command("calibrate", "ws://127.0.0.1:1", "--through", "gpu-1", "--audio", "sample", "--database", s.database); status != 2 || !strings.Contains(messages, "needs a running proxy") {
		t.Errorf("status %d, %s", status, messages)
	}
	if after := s.must("config export"); after != before {
		t.Errorf("%s\nwant\n%s", after, before)
	}
}

// In a fleet, a backend is drained at all proxies before it is moved, and nothing is changed unless all of them answer and have another backend.
func TestCalibrateThroughInFleet(t *testing.T) {
	s := onProxy(t, open)
	face := simulated(t, sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}})
	s.must("service add stt --profile vosk", "backend add gpu-1 ws://10.0.0.5:1 --connections 8", "backend add gpu-2 ws://10.0.0.6:1 --connections 8")
	before := s.must("config export")
	of := func(sessions, usable bool, fleet *api.Fleet) api.Stats { // at proxy-b, where gpu-2 is usable or not
		state := s.present(t).Backends["gpu-1"].State
		one, other := leased("gpu-1", state, 0), leased("gpu-2", "enabled", 0)
		one.Proxies = []api.BackendPart{{Proxy: "proxy-a", State: state}, {Proxy: "proxy-b", State: state}}
		if sessions {
			one.Leased, one.Proxies[1].Leased = 5, 5
		}
		other.Service, other.Proxies = "stt", []api.BackendPart{{Proxy: "proxy-a", State: "enabled", Usable: true}, {Proxy: "proxy-b", State: "enabled", Usable: usable}}
		now := backends(one, other)
		now.Fleet = fleet
		return now
	}
	s.playing(func() api.Stats { // of proxy-a
		now := of(false, true, nil)
		now.Backends[0].Proxies, now.Backends[1].Proxies = nil, nil
		return now
	})
	away := &api.Fleet{Mode: api.FleetShare, Whole: true, Missing: []api.MissingProxy{{ID: "c", Name: "proxy-c", Why: "not seen for 12 s"}}}
	for _, c := range []struct {
		whole   func() api.Stats
		says    string
		changes bool
	}{
		{func() api.Stats { return of(true, true, nil) }, "gpu-1: 5 sessions left (proxy-b 5)", true},
		{func() api.Stats { return of(false, false, nil) }, "the service stt has no other backend that takes sessions now at proxy-b, which its clients need", false},
		{func() api.Stats { return of(false, true, away) }, "another proxy may have sessions on the backend gpu-1: proxy-c: not seen for 12 s", false},
	} {
		s.inFleet(c.whole)
		ctx, cancel := context.WithCancel(t.Context())
		root := newRootCommand()
		root.SetArgs(append([]string{"calibrate", face, "--through", "gpu-1", "--audio", shortSpeech(t), "--session", "2s", "--soak", "2s"}, s.where...))
		messages := &canceller{word: c.says, end: cancel}
		root.SetErr(messages)
		err := root.ExecuteContext(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(messages.String(), "gpu-1: drained") != c.changes || strings.Contains(messages.String(), "in its own service") {
			t.Errorf("want %q: %v\n%s", c.says, err, messages)
		}
		if after := s.must("config export"); after != before {
			t.Errorf("%s\nwant\n%s", after, before)
		}
	}
}

// present returns what the configuration says.
func (s *stage) present(t *testing.T) config.Content {
	store, err := stores.Open(s.database, config.Options{ReadOnly: true})
	if err != nil {
		t.Error(err)
		return config.NewContent()
	}
	defer store.Close()
	snapshot, err := store.Load(context.Background())
	if err != nil {
		t.Error(err)
		return config.NewContent()
	}
	return snapshot.Content()
}

// inFrontOf returns a server in front of another, and whether that one has refused the last session.
func inFrontOf(t *testing.T, server string) (front string, refused *atomic.Bool) {
	t.Helper()
	at, err := url.Parse(strings.Replace(server, "ws://", "http://", 1))
	if err != nil {
		t.Fatal(err)
	}
	refused = new(atomic.Bool)
	to := httputil.NewSingleHostReverseProxy(at)
	to.ModifyResponse = func(r *http.Response) error {
		refused.Store(r.StatusCode != http.StatusSwitchingProtocols)
		return nil
	}
	s := httptest.NewServer(to)
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http://", "ws://", 1), refused
}

// What keeps the sessions from the server because of the proxy's own limits is no result, also if nothing is short any longer when the server has recovered.
func TestCalibrateThroughProxyLimits(t *testing.T) {
	var refused *atomic.Bool
	s := onProxy(t, open)
	s.must("service add stt --profile vosk", "backend add gpu-1 ws://10.0.0.5:1 --connections 8", "backend add gpu-2 ws://10.0.0.6:1 --connections 8")
	for _, c := range []struct {
		says string
		met  func(now *api.Stats, asked uint64)
	}{
		{"clients reached the proxy's total-session-limit: raise it meanwhile", func(now *api.Stats, asked uint64) {
			now.Limits.Totals = []api.LimitTotal{{Limit: "session-limit", Scope: "process", Count: asked}, {Limit: "session-rate", Scope: "service", Count: 7}}
		}},
		{"the proxy may have only 1 of its 1024 connections", func(now *api.Stats, _ uint64) {
			now.Limits.Totals = []api.LimitTotal{{Limit: "session-limit", Scope: "process", Count: 7}} // reached before
			now.Backends[0].Places, now.Backends[0].Ceiling, now.Backends[0].Cap, now.Backends[0].Limit = new(api.Places), 1024, 1024, 1
		}},
		{"lacks resources: no descriptor", func(now *api.Stats, _ uint64) {
			if refused.Load() { // by its server, until that has recovered
				now.Shortages = []string{"no descriptor"}
			}
		}},
	} {
		t.Setenv("STATE_DIRECTORY", t.TempDir())
		var face string
		face, refused = inFrontOf(t, simulated(t, sim.Options{Protocol: sim.Vosk, Nasty: sim.NastyOptions{Full: 1}}))
		other, asked := leased("gpu-2", "enabled", 0), uint64(0)
		other.Service = "stt"
		s.playing(func() api.Stats {
			content := s.present(t)
			now := backends(leased("gpu-1", content.Backends["gpu-1"].State, 0), other)
			if content.Backends["gpu-1"].Service != "stt" {
				asked++
				c.met(&now, asked)
			}
			return now
		})
		status, out, messages := s.run("calibrate", face, "--through", "gpu-1", "--audio", shortSpeech(t), "--session", "2s", "--soak", "2s", "--lag-p95", "5s", "--same-text", "0")
		if status == 0 || !strings.Contains(messages, c.says) || strings.Contains(out, "backend set") {
			t.Errorf("want %q: status %d, %s\n%s", c.says, status, messages, out)
		}
	}
}

// The sessions reach the backend's own service, also where other services have the host that clients connect to, and its servers get what those of the
// service get.
func TestCalibrateThroughOwnService(t *testing.T) {
	content := config.NewContent()
	if problems := append(
		content.Set(config.KindService, "plain", config.Values{"path": "/v1", "ping-interval": "3s", "set-header": "X-Tenant={tenant}", "queue": "0", "auth": "keys", "canary": "/a.wav"}),
		append(
			content.Set(config.KindService, "deep", config.Values{"path": "/v1/", "pass": "path,query"}),
			content.Set(config.KindService, "other", config.Values{"host": "stt.example.org", "pass": "path"})...,
		)...,
	); problems != nil {
		t.Fatal(problems)
	}
	for _, c := range []struct{ service, at, want, host string }{
		{"plain", "wss://STT.example.org.:8443/v1?model=a", "wss://STT.example.org.:8443/calibrate-x?model=a", "stt.example.org"},
		{"plain", "ws://10.0.0.1", "ws://10.0.0.1/calibrate-x", ""},
		{"deep", "ws://10.0.0.1?model=a", "ws://10.0.0.1/calibrate-x?model=a", ""},
		{"deep", "ws://10.0.0.1/v1", "ws://10.0.0.1/calibrate-x", ""},
		{"deep", "ws://10.0.0.1/v1/a%2Fb/?x", "ws://10.0.0.1/calibrate-x/a%2Fb/?x", ""},
		{"deep", "ws://10.0.0.1/v10", "", ""},
		{"deep", "ws://10.0.0.1/", "ws://10.0.0.1/calibrate-x", ""},
		{"other", "ws://10.0.0.1/", "ws://10.0.0.1/calibrate-x", ""},
		{"other", "ws://10.0.0.1/a", "ws://10.0.0.1/calibrate-x/a", ""},
	} {
		at, err := url.Parse(c.at)
		if err != nil {
			t.Fatal(err)
		}
		p := through{backend: "gpu-1", before: config.Values{"service": c.service}, path: "/calibrate-x"}
		own, address, err := p.own(&content, at)
		if address != c.want || (err == nil) != (c.want != "") || own["host"] != c.host {
			t.Errorf("%s, %s: %v, %s, %v", c.service, c.at, own, address, err)
		}
		if c.service == "plain" && (own["path"] != "/calibrate-x" || own["ping-interval"] != "3s" || !strings.Contains(own["set-header"], "{tenant}") || own["auth"]+own["canary"] != "") {
			t.Errorf("%v", own)
		}
	}
}

// While the proxy or its store is unreachable, a backend is put back as soon as that is over, and the commands are shown if it takes too long.
func TestCalibrateThroughPutsBackLater(t *testing.T) {
	for _, c := range []struct {
		why   error
		away  int // loads that fail
		tried int // or once more, at the very end
	}{
		{&client.UnreachableError{Address: "x", Reason: errors.New("it is started again")}, 3, 4},
		{config.ErrUnreachable, 3, 4},
		{remote.ErrStore, 1000, int(putBackTime / putBackEvery)},
		{&client.Error{Status: http.StatusServiceUnavailable}, 3, 4},
		{config.ErrSchema, 3, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, store, messages := taken(t)
			defer store.Close()
			tried := 0
			p.target.Store = loader{store, func(ctx context.Context) (*config.Snapshot, error) {
				if tried++; tried <= c.away {
					return nil, c.why
				}
				return store.Load(ctx)
			}}
			err := p.putBack()
			back := tried > c.away
			if back != (err == nil) || err != nil && !errors.Is(err, c.why) || tried != c.tried && (back || tried != c.tried+1) || strings.Count(messages.String(), "cannot be put back yet") != min(1, tried-1) {
				t.Errorf("%v: %v, tried %d times\n%s", c.why, err, tried, messages)
			}
		})
	}
}

// What others have changed meanwhile stays, also where that comes at the last moment.
func TestCalibrateThroughLeavesOtherChanges(t *testing.T) {
	set := func(values config.Values) config.Mutation {
		return config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: values}
	}
	for _, c := range []struct {
		theirs config.Mutation
		want   string // of the backend
		says   string
	}{
		{set(config.Values{"labels": `{"zone":"a"}`}), "stt 8 3 2 enabled", "gpu-1: put back (version 2)\n"},
		{set(config.Values{"weight": "3"}), "stt 8 3 3 enabled", "gpu-1: left as others have changed it meanwhile: weight 3\n"},
		{set(config.Values{"connections": "12", "state": "draining"}), "stt 12 3 2 draining", "gpu-1: left as others have changed it meanwhile: connections 12, state draining\n"},
		{set(config.Values{"service": "stt"}), "stt 8 3 2 enabled", "gpu-1: put back (version 2)\n"},
		{config.Mutation{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-1"}, "", "gpu-1: left as others have changed it meanwhile: it was removed\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, store, messages := taken(t)
			defer store.Close()
			p.target.Store = loader{store, func(ctx context.Context) (*config.Snapshot, error) {
				seen, err := store.Load(ctx)
				if seen.Version() == "0" {
					_, err = store.Apply(ctx, config.Change{Who: "alice", Mutations: []config.Mutation{c.theirs}})
				}
				return seen, err
			}}
			err := p.putBack()
			snapshot, _ := store.Load(t.Context())
			content, got := snapshot.Content(), ""
			if content.Has(config.KindBackend, "gpu-1") {
				for _, field := range []string{"service", "connections", "warm", "weight", "state"} {
					got += " " + content.Value(config.KindBackend, "gpu-1", field)
				}
			}
			if err != nil || strings.TrimSpace(got) != c.want || !strings.Contains(messages.String(), c.says) || content.Has(config.KindService, "calibrate-gpu-1") {
				t.Errorf("%v: %v, has%s, said\n%s", c.theirs, err, got, messages)
			}
		})
	}
}

// taken returns a backend that is in its own service, and the store with it.
func taken(t *testing.T) (p *through, store config.Store, messages *bytes.Buffer) {
	t.Helper()
	content := config.NewContent()
	content.Set(config.KindService, "stt", config.Values{"path": "/v1"})
	content.Set(config.KindService, "calibrate-gpu-1", config.Values{"path": "/calibrate-x"})
	content.Set(config.KindBackend, "gpu-1", config.Values{"url": "ws://10.0.0.5", "service": "calibrate-gpu-1", "connections": "1024", "warm": "0"})
	store, err := memory.New(content, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	messages = new(bytes.Buffer)
	p = &through{
		backend: "gpu-1", before: config.Values{"service": "stt", "connections": "8", "warm": "3", "weight": "2", "state": "enabled"},
		set:    config.Values{"service": "calibrate-gpu-1", "connections": "1024", "warm": "0", "weight": "1", "state": "enabled"},
		target: &target{Store: store}, to: messages, taken: true, last: t.Context(),
	}
	return p, store, messages
}

// loader is a store that is only read from.
type loader struct {
	config.Store
	load func(ctx context.Context) (*config.Snapshot, error)
}

func (l loader) Load(ctx context.Context) (*config.Snapshot, error) { return l.load(ctx) }
