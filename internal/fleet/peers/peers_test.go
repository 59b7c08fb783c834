package peers

import (
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// stats is a proxy's statistics with one backend.
func stats(version string, leased int, healthy bool) *api.Stats {
	s := &api.Stats{
		Sessions:      api.Sessions{Active: int64(leased), Ended: map[uint16]uint64{1000: 2}},
		Configuration: api.Configuration{Version: version},
		Services:      []api.Service{{Name: "stt", Queue: api.Queue{Limit: 10, Waiting: 1, OldestSeconds: float64(leased)}, Utilisation: float64(leased) / 10}},
		Backends: []api.Backend{{
			Name: "gpu-1", Service: "stt", Health: api.Health{Reachable: healthy, Reason: "connection refused"},
			Pool: api.Pool{State: "enabled", Usable: true, Cap: 16, Ceiling: 16, Weight: 1, Leased: leased, Totals: api.Totals{Reasons: map[string]uint64{"served": 1}}},
		}},
	}
	return s
}

// What services have used, and how often a backend's circuit opened, is added up.
func TestSums(t *testing.T) {
	part := func(n uint64) proxyStats {
		s := stats("1", 1, n == 3)
		s.Services[0].Used.Results, s.Backends[0].CircuitOpened = n, n
		return proxyStats{"p", s}
	}
	all := begin(part(3))
	join(all, part(4))
	if got := []uint64{all.Services[0].Used.Results, all.Backends[0].CircuitOpened}; got[0] != 7 || got[1] != 7 {
		t.Errorf("3 and 4 results and opened circuits are %d", got)
	}
}

// A proxy that has no place at a server has never dialed it, so what the others say of the server counts.
func TestStatsWithoutPlaces(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for i, p := range r.proxies {
		s := stats("7", 0, i == 1)
		if s.Backends[0].Places = (&api.Places{Grant: 16, Granted: 16, Cap: 16}); i != 1 {
			s.Backends[0].Places.Grant, s.Backends[0].Reason = 0, "not dialed yet"
		}
		p.answer(200, s)
	}
	var s api.Stats
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s)
	if c := s.Backends[0].Condition; c.Word != api.Healthy {
		t.Errorf("%+v", c)
	}
}

// The ceiling that one proxy has found is shown, with the reason.
func TestCeilingOfOne(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for i, p := range r.proxies {
		s := stats("7", 4, true)
		if b := &s.Backends[0]; i == 1 {
			b.Ceiling, b.CeilingCause, b.CeilingReason = 3, "lag", "results came 3s late"
		}
		p.answer(200, s)
	}
	var s api.Stats
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s)
	if b := s.Backends[0]; b.CeilingCause != "lag" || b.CeilingReason != "results came 3s late (seen by b)" {
		t.Errorf("%+v", b.Health)
	}
}

// The statistics of a fleet are the sums of its proxies'; a server's cap is not added.
func TestStats(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	r.proxies[0].answer(200, stats("7", 3, true))
	r.proxies[1].answer(200, stats("6", 5, false))
	r.proxies[2].server.Close()
	r.unseen[r.proxies[2].id] = 12 * time.Second
	var s api.Stats
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s)
	b := &s.Backends[0]
	if s.Sessions.Active != 8 || s.Sessions.Ended[1000] != 4 || len(s.Backends) != 1 || b.Leased != 8 || b.Cap != 16 || b.Ceiling != 16 || b.Totals.Reasons["served"] != 2 {
		t.Errorf("sums: %+v, %+v", s.Sessions, b)
	}
	if c := b.Condition; c.Word != "unreachable" || c.Why != "connection refused (seen by b)" {
		t.Errorf("what is wrong at one proxy: %+v", c)
	}
	if q := s.Services[0].Queue; q.Waiting != 2 || q.Limit != 20 || q.OldestSeconds != 5 || s.Services[0].Utilisation != 0.5 {
		t.Errorf("queue: %+v, utilisation %v", q, s.Services[0].Utilisation)
	}
	if len(b.Proxies) != 2 || b.Proxies[1].Proxy != "b" || b.Proxies[1].Configuration != "6" || b.Proxies[1].Leased != 5 {
		t.Errorf("parts: %+v", b.Proxies)
	}
	f := s.Fleet
	if !f.Whole || len(f.Missing) != 1 || !strings.HasPrefix(f.Missing[0].String(), "c: not seen for 12 s, no proxy answers at http://") {
		t.Errorf("missing: %+v", f.Missing)
	}
	if p := f.Proxies; !p[0].Reachable || !p[1].Reachable || p[2].Reachable || p[1].Configuration != "6" || !strings.HasPrefix(p[2].Problem, "not seen for 12 s") {
		t.Errorf("proxies: %+v", p)
	}
}

// What proxies ask of each other is not passed on: two that ask each other do not ask for ever.
func TestOneHop(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for _, p := range r.proxies {
		p.answer(200, stats("1", 1, true))
	}
	var s api.Stats
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s, api.PeerHeader, string(r.proxies[1].id))
	if s.Sessions.Active != 1 || s.Fleet != nil || len(r.proxies[2].asked) != 0 {
		t.Errorf("a request of a peer: %+v, and c was asked %v", s.Sessions, r.proxies[2].asked)
	}
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s)
	if got := r.proxies[2].asked; len(got) != 1 || got[0] != "GET /api/v1/stats" {
		t.Errorf("c was asked %v", got)
	}
}

// The sessions of all proxies are in one list, in the order that was asked for, each with its proxy.
func TestSessions(t *testing.T) {
	r := newRig(t, "a", "b")
	began := time.Now().Add(-time.Hour)
	list := func(id string, age time.Duration) api.SessionList {
		return api.SessionList{Sessions: []api.Session{{ID: id, Started: began.Add(-age), AgeSeconds: age.Seconds()}}, Matched: 3, Total: 4}
	}
	r.proxies[0].answer(200, list("x-1", time.Second))
	r.proxies[1].answer(200, list("y-1", time.Minute))
	var l api.SessionList
	r.proxies[0].ask("GET", "/api/v1/sessions?sort=age&limit=1&fleet=true", &l)
	if len(l.Sessions) != 1 || l.Sessions[0].ID != "y-1" || l.Sessions[0].Proxy != "b" || l.Matched != 6 || l.Total != 8 {
		t.Errorf("got %+v", l)
	}
	if got := r.proxies[1].asked; got[0] != "GET /api/v1/sessions?limit=1&sort=age" {
		t.Errorf("b was asked %v", got)
	}
}

// One session is shown and ended wherever it is.
func TestSession(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for _, p := range r.proxies {
		p.fail(404, api.KindUnknown, `unknown session "y-1": it never was, or ended too long ago to be remembered`)
	}
	r.proxies[1].answer(200, api.SessionDetail{Session: api.Session{ID: "y-1"}})
	var d api.SessionDetail
	if r.proxies[0].ask("GET", "/api/v1/sessions/y-1?fleet=true", &d); d.ID != "y-1" || d.Proxy != "b" {
		t.Errorf("got %+v", d.Session)
	}
	r.proxies[1].answer(200, api.Outcome{Text: "session y-1 is ended"})
	var o api.Outcome
	if r.proxies[0].ask("DELETE", "/api/v1/sessions/y-1?fleet=true", &o); o.Text != "session y-1 is ended" {
		t.Errorf("got %+v", o)
	}
	r.proxies[1].fail(409, api.KindState, "session y-1 has ended")
	if got := r.proxies[0].refusal("DELETE", "/api/v1/sessions/y-1?fleet=true", 409); got != "session y-1 has ended" {
		t.Errorf("got %s", got)
	}
	r.proxies[1].server.Close()
	if got := r.proxies[0].refusal("GET", "/api/v1/sessions/y-1?fleet=true", 404); !strings.Contains(got, "remembered; b: no proxy answers at ") || !strings.HasSuffix(got, "its sessions are not known") {
		t.Errorf("got %s", got)
	}
	asked := len(r.proxies[0].asked)
	r.proxies[2].answer(200, api.SessionDetail{Session: api.Session{ID: "z-1"}})
	r.proxies[2].ask("GET", "/api/v1/sessions/z-1?fleet=true", &d)
	if len(r.proxies[0].asked) != asked {
		t.Error("a was asked for a session that c has")
	}
}

// An action is done at all proxies. What one of them refuses, and who could not be asked, is said.
func TestActions(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	r.proxies[0].fail(409, api.KindState, "service stt is paused already")
	r.proxies[1].answer(200, api.Outcome{Text: "service stt is paused: 2 clients wait", Sessions: 2})
	r.proxies[2].server.Close()
	var o api.Outcome
	if status := r.proxies[0].ask("POST", "/api/v1/services/stt/pause?fleet=true", &o); status != 200 {
		t.Errorf("status %d", status)
	}
	if o.Text != "a: service stt is paused already\nb: service stt is paused: 2 clients wait" || o.Sessions != 2 || len(o.Proxies) != 2 || o.Proxies[0].Failed || len(o.Missing) != 1 {
		t.Errorf("got %+v", o)
	}
	r.proxies[1].fail(409, api.KindState, "service stt is paused already")
	if got := r.proxies[0].refusal("POST", "/api/v1/services/stt/pause?fleet=true", 409); !strings.HasPrefix(got, "service stt is paused already; c: no proxy answers") {
		t.Errorf("got %s", got)
	}
	for _, p := range r.proxies[:2] {
		p.answer(200, api.Moving{Backend: "gpu-1", Done: p.name == "a", Sessions: []api.MovingSession{{ID: p.name + "-1", State: api.MoveWaiting}}})
	}
	var m api.Moving
	r.proxies[0].ask("POST", "/api/v1/backends/gpu-1/move?timeout=1s&fleet=true", &m)
	if m.Done || len(m.Sessions) != 2 || m.Sessions[1].Proxy != "b" || len(m.Missing) != 1 {
		t.Errorf("got %+v", m)
	}
}

// No proxy is asked for a caller who may not ask this proxy, or whose request is not understood.
func TestRefused(t *testing.T) {
	r := newRig(t, "a", "b")
	r.proxies[1].answer(200, stats("1", 1, true))
	for _, status := range []int{400, 401, 403, 429} {
		r.proxies[0].fail(status, api.KindRefused, "no")
		r.proxies[0].refusal("GET", "/api/v1/stats?fleet=true", status)
	}
	if got := r.proxies[0].refusal("GET", "/api/v1/stats?fleet=yes", 400); got != `fleet: invalid value "yes": use true or false` {
		t.Errorf("got %s", got)
	}
	if got := r.proxies[0].refusal("GET", "/api/v1/audit?fleet=true", 400); !strings.Contains(got, "is about one proxy") {
		t.Errorf("got %s", got)
	}
	if len(r.proxies[1].asked) != 0 {
		t.Errorf("b was asked %v", r.proxies[1].asked)
	}
}

// Whatever another proxy answers, the others' part is served, and why one is missing is said, without the token.
func TestStrangeAnswers(t *testing.T) {
	r := newRig(t, "a", "b")
	a, b := r.proxies[0], r.proxies[1]
	a.token = "secret-of-the-fleet"
	a.peers.options.Timeout = time.Minute // one sends much
	a.answer(200, stats("1", 1, true))
	for _, k := range []struct {
		what    string
		own     http.HandlerFunc
		address string
		host    string
		says    string
	}{
		{what: "refuses", own: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			fmt.Fprint(w, `{"error":{"kind":"refused","text":"wrong token for the admin API"}}`)
		}, says: "wrong token for the admin API (the token is that of --fleet-token"},
		{what: "no JSON", own: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, says: "cannot read the answer"},
		{what: "other type", own: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"services":7}`) }, says: "is it another version?"},
		{what: "not found", own: http.NotFound, says: "is it the admin API of wsbouncer"},
		{what: "endless", own: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<20)); err != nil {
					return
				}
			}
		}, says: "answered with more than 16777216 bytes"},
		{what: "redirects", own: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, says: "302 Found"},
		{what: "no address", address: "-", says: "set --admin there, or --fleet-address"},
		{what: "no URL", address: "http://%zz", says: "is not a URL"},
		{what: "loopback elsewhere", host: "there", says: "means another process on this host"},
	} {
		b.own = k.own
		m := &r.members[1]
		m.Address, m.Host = b.server.URL, "here"
		if k.host != "" {
			m.Host = k.host
		}
		if k.address != "" {
			m.Address = strings.TrimPrefix(k.address, "-")
		}
		var s api.Stats
		status := a.ask("GET", "/api/v1/stats?fleet=true", &s)
		if status != 200 || s.Sessions.Active != 1 || len(s.Fleet.Missing) != 1 || !strings.Contains(s.Fleet.Missing[0].Why, k.says) {
			t.Errorf("%s: %d, %+v", k.what, status, s.Fleet.Missing)
		} else if strings.Contains(s.Fleet.Missing[0].Why, a.token) {
			t.Errorf("%s: the answer has the token: %s", k.what, s.Fleet.Missing[0].Why)
		}
	}
}

// With authorities for the proxies' certificates, a client that writes another address to the ledger does not get the token.
func TestStrangersGetNoToken(t *testing.T) {
	r := newRig(t, "a")
	a := r.proxies[0]
	a.token = "secret-of-the-fleet"
	a.answer(200, stats("1", 1, true))
	a.peers.options.Authorities = x509.NewCertPool // which is empty
	var asked atomic.Int32
	stranger := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	plain, secured := httptest.NewServer(stranger), httptest.NewUnstartedServer(stranger)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	defer plain.Close()
	defer secured.Close()
	for _, k := range []struct{ address, says string }{
		{plain.URL, "is not https://"}, {strings.Replace(plain.URL, "http", "HTTP", 1), "is not https://"}, {secured.URL, "certificate"},
	} {
		r.members = append(r.members[:1:1], fleet.Member{ID: "b", Name: "b", Address: k.address, Host: "here"})
		var s api.Stats
		a.ask("GET", "/api/v1/stats?fleet=true", &s)
		if len(s.Fleet.Missing) != 1 || !strings.Contains(s.Fleet.Missing[0].Why, k.says) || asked.Load() != 0 {
			t.Errorf("%s: asked %d times, %+v", k.address, asked.Load(), s.Fleet.Missing)
		}
	}
}

// A proxy that does not answer costs the time-out, and no more.
func TestTimeout(t *testing.T) {
	r := newRig(t, "a", "b")
	r.proxies[0].answer(200, stats("1", 1, true))
	r.proxies[0].peers.options.Timeout = 10 * time.Millisecond
	r.proxies[1].own = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	var s api.Stats
	r.proxies[0].ask("GET", "/api/v1/stats?fleet=true", &s)
	if len(s.Fleet.Missing) != 1 || !strings.Contains(s.Fleet.Missing[0].Why, "no answer within 10ms") {
		t.Errorf("missing: %+v", s.Fleet.Missing)
	}
}

// A request that an address led to the wrong proxy is refused there.
func TestMisdirected(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	for _, p := range r.proxies {
		p.answer(200, api.Outcome{Text: "done by " + p.name})
	}
	r.members[1].Address = r.members[2].Address // a load balancer, say
	var o api.Outcome
	r.proxies[0].ask("POST", "/api/v1/backends/gpu-1/recycle?fleet=true", &o)
	if len(o.Missing) != 1 || o.Missing[0].Name != "b" || !strings.Contains(o.Missing[0].Why, "does its address lead to several?") || len(r.proxies[2].asked) != 1 {
		t.Errorf("got %+v, and c was asked %v", o, r.proxies[2].asked)
	}
}

// Names that two proxies share are told apart, and said to be wrong only while both serve.
func TestNames(t *testing.T) {
	v := View{Mode: agent.Shared, Self: "aaaa1", Members: []fleet.Member{{ID: "aaaa1", Name: "x", State: fleet.Serving}, {ID: "bbbb2", Name: "x", State: fleet.Serving}}}
	if got := v.label("bbbb2"); got != "x (bbbb)" {
		t.Errorf("label %q", got)
	}
	if f := v.Shown(time.Now()); f.Proxies[0].Problem == "" || f.Proxies[1].Problem == "" {
		t.Errorf("two serve with one name: %+v", f.Proxies)
	}
	v.Members[1].State = fleet.Draining
	if f := v.Shown(time.Now()); f.Proxies[0].Problem != "" || f.Proxies[1].Problem != "" {
		t.Errorf("one of two drains: %+v", f.Proxies)
	}
}

// The parts of a sum stay what they are: the statistics of a proxy are used again.
func TestSumChangesNothing(t *testing.T) {
	parts := []proxyStats{{"a", stats("1", 1, true)}, {"b", stats("1", 2, true)}}
	all := begin(parts[0])
	join(all, parts[1])
	for i, want := range []*api.Stats{stats("1", 1, true), stats("1", 2, true)} {
		if !reflect.DeepEqual(parts[i].stats, want) {
			t.Errorf("part %d is %+v", i, parts[i].stats)
		}
	}
}

// A proxy that sends no heartbeats is unseen, whatever it was before. One that cannot reach the ledger itself sees no other: it does not report that of
// the others.
func TestShownWithoutLedger(t *testing.T) {
	v := View{
		Mode: agent.Shared, Self: "a", Members: []fleet.Member{{ID: "a", Name: "a", State: fleet.Serving}, {ID: "b", Name: "b", State: fleet.Serving}},
		Unseen: map[fleet.ID]time.Duration{"b": 12 * time.Second},
	}
	for problem, want := range map[string]api.Proxy{
		"": {State: api.ProxyUnseen, Problem: "not seen for 12 s"}, "refused": {State: api.ProxyServing},
	} {
		v.Problem = problem
		if got := v.Shown(time.Now()).Proxies[1]; got.State != want.State || got.Problem != want.Problem || got.SeenSeconds != 12 {
			t.Errorf("ledger %q: %+v; want %+v", problem, got, want)
		}
	}
}
