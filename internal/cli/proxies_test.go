package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedFleet is what the proxy that a test plays knows of its fleet.
func playedFleet() api.Fleet {
	return api.Fleet{
		Mode: api.FleetShare, Whole: true,
		Proxies: []api.Proxy{
			{ID: "aaaa000000000001", Name: "proxy-a", Self: true, State: api.ProxyServing, AgeSeconds: 60, Sessions: 3, Places: 4, Configuration: "7", Reachable: true},
			{ID: "bbbb000000000002", Name: "proxy-b", State: api.ProxyUnseen, SeenSeconds: 12, Places: 12, Configuration: "6", Problem: "not seen for 12 s", Grants: []api.ProxyGrant{{Server: "gpu-1:80", Places: 12, Needs: 5, Wants: 9}}},
			{ID: "cccc000000000003", Name: "proxy-c", State: api.ProxyDraining, SeenSeconds: 0.4, Places: 1, Configuration: "6", Reachable: true},
		},
		Missing: []api.MissingProxy{{ID: "bbbb000000000002", Name: "proxy-b", Why: "not seen for 12 s: its sessions are not known"}},
	}
}

// onFleet has a test play the API of a proxy, and returns what runs commands there, and the requests that it gets.
func onFleet(t *testing.T, more map[string]any) (run func(line string) (int, string, string), asked *[]string) {
	t.Helper()
	alone(t)
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		if answer, ok := more[r.URL.Path]; ok {
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		f := playedFleet()
		switch name := strings.TrimPrefix(r.URL.Path, api.ProxiesPath+"/"); {
		case r.URL.Path == api.ProxiesPath:
			_ = json.NewEncoder(w).Encode(f)
		case r.Method == http.MethodPost:
			_ = json.NewEncoder(w).Encode(api.Outcome{Text: "forgotten"})
		default:
			_ = json.NewEncoder(w).Encode(f.Find(name)[0])
		}
	}))
	t.Cleanup(server.Close)
	return func(line string) (int, string, string) {
		return command(append(strings.Fields(line), "--admin", server.URL)...)
	}, asked
}

func TestProxyList(t *testing.T) {
	run, asked := onFleet(t, nil)
	status, out, messages := run("proxy ls")
	want := `NAME       ID                STATE     SEEN     UP     SESSIONS  PLACES  CONFIGURATION  VERSION  PROBLEM
proxy-a *  aaaa000000000001  serving   now      1m00s  3         4       7              -        -
proxy-b    bbbb000000000002  unseen   12s ago  0s     0         12      6              -        not seen for 12 s
proxy-c    cccc000000000003  draining  now      0s     0         1       6              -        -
`
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if status != 0 || squeeze(out) != squeeze(want) || messages != "" {
		t.Errorf("status %d, said %q, printed\n%s\nwant\n%s", status, messages, out, want)
	}
	if status, out, _ := run("proxy ls -o name --local"); status != 0 || out != "proxy-a\nproxy-b\nproxy-c\n" {
		t.Errorf("names: status %d, %q", status, out)
	}
	if got := *asked; got[0] != "GET /api/v1/proxies?fleet=true" || got[1] != "GET /api/v1/proxies" {
		t.Errorf("asked %q", got)
	}
	if status, out, _ := run("proxy show proxy-b"); status != 0 || !strings.Contains(out, "gpu-1:80  12      5      9") || !strings.Contains(out, "not seen for 12 s") {
		t.Errorf("show: status %d, %s", status, out)
	}
}

// A proxy is forgotten only if the user confirms it, and one that was just seen only by force.
func TestProxyForget(t *testing.T) {
	run, asked := onFleet(t, nil)
	status, _, messages := run("proxy forget proxy-b")
	if status != 2 || !strings.Contains(messages, "forget proxy-b (bbbb000000000002, seen 12s ago), which holds 12 places; if it still runs, servers may see up to 12 connections more than their caps") {
		t.Errorf("without --yes: status %d, %s", status, messages)
	}
	if status, _, messages = run("proxy forget proxy-c --yes"); status != 1 || !strings.Contains(messages, "was seen just now, so it runs: end it first, or use --force") {
		t.Errorf("one that runs: status %d, %s", status, messages)
	}
	if n := len(*asked); n != 2 {
		t.Errorf("asked %q", *asked)
	}
	if status, out, _ := run("proxy forget proxy-b --yes"); status != 0 || out != "forgotten\n" {
		t.Errorf("status %d, %q", status, out)
	}
	if status, _, _ := run("proxy forget proxy-c --yes --force"); status != 0 {
		t.Errorf("by force: status %d", status)
	}
	all := strings.Join(*asked, "\n")
	if !strings.Contains(all, "POST /api/v1/proxies/bbbb000000000002/forget\n") || !strings.HasSuffix(all, "POST /api/v1/proxies/cccc000000000003/forget?force=true") {
		t.Errorf("asked\n%s", all)
	}
}

// What is shown of one entity, and of the whole configuration, is of all proxies, as in lists: those that are missing are named, and --local asks one only.
func TestShowInFleet(t *testing.T) {
	s := onDatabase(t).begin()
	s.must("tenant add acme")
	f := playedFleet()
	run, asked := onFleet(t, map[string]any{api.StatsPath: api.Stats{Fleet: &f}})
	for _, line := range []string{"backend show gpu-1", "tenant show acme", "config show"} {
		for flag, want := range map[string]string{"": "GET /api/v1/stats?fleet=true", " --local": "GET /api/v1/stats"} {
			*asked = nil
			status, _, messages := run(line + " --database " + s.database + flag)
			if status != 0 || !slices.Equal(*asked, []string{want}) || !strings.Contains(messages, "Not included: proxy-b: ") {
				t.Errorf("%s%s: status %d, asked %q, said %q", line, flag, status, *asked, messages)
			}
		}
	}
}

// The proxies that are not in what is shown are named.
func TestMissingInFleet(t *testing.T) {
	missing := playedFleet().Missing
	run, _ := onFleet(t, map[string]any{
		api.StatsPath: backends(leased("gpu-1", "enabled", 0)), api.AccessPath: api.Access{},
		api.SessionsPath: api.SessionList{Missing: missing}, api.ProblemsPath: api.ProblemList{Missing: missing},
	})
	for _, line := range []string{"session ls", "session kill --backend gpu-1 --dry-run", "problems"} {
		if status, _, messages := run(line); status != 0 || messages != "Not included: proxy-b: not seen for 12 s: its sessions are not known\n" {
			t.Errorf("%s: status %d, said %q", line, status, messages)
		}
	}
}

// What some proxies have not done makes an action fail, after it was done at the others.
func TestActionInFleet(t *testing.T) {
	run, asked := onFleet(t, map[string]any{
		"/api/v1/services/stt/pause": api.Outcome{
			Text:    "proxy-a: paused\nproxy-c: is paused already",
			Proxies: []api.ProxyOutcome{{Name: "proxy-a", Text: "paused"}, {Name: "proxy-c", Text: "is paused already", Failed: true}},
			Missing: []api.MissingProxy{{Name: "proxy-b", Why: "not seen for 12 s: it may not have been done there"}},
		},
	})
	status, out, messages := run("service pause stt")
	if status != 1 || out != "proxy-a: paused\nproxy-c: is paused already\n" || !strings.Contains(messages, "proxy-b: not seen for 12 s") || !strings.Contains(messages, "proxy-c: is paused already") {
		t.Errorf("status %d, printed %q, said %q", status, out, messages)
	}
	_, _, _ = run("service pause stt --local")
	if got := *asked; got[0] != "POST /api/v1/services/stt/pause?fleet=true" || got[1] != "POST /api/v1/services/stt/pause" {
		t.Errorf("asked %q", got)
	}
}

// plays answers each request with the same statistics.
type plays struct{ stats api.Stats }

// Get implements getter.
func (p plays) Get(_ context.Context, _ string, _ url.Values, to any) error {
	*to.(*api.Stats) = p.stats
	return nil
}

// A drain waits for all proxies, and for those of which nothing is known.
func TestDrainWaitsForFleet(t *testing.T) {
	f := playedFleet()
	b := api.Backend{Name: "gpu-1", Pool: api.Pool{State: "draining", Leased: 3}, Proxies: []api.BackendPart{{Proxy: "proxy-a", State: "draining"}, {Proxy: "proxy-c", State: "draining", Leased: 3}}}
	left := func(s api.Stats, present bool) string {
		t.Helper()
		w := waiter{proxy: plays{s}, names: []string{"gpu-1"}, to: draining, version: "7", present: present}
		text, _, err := w.left(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := "gpu-1: 3 sessions left (proxy-c 3); proxy-b: not seen for 12 s: its sessions are not known (once it is known to be gone: wsbouncer proxy forget bbbb000000000002)"
	if got := left(api.Stats{Fleet: &f, Backends: []api.Backend{b}}, false); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b.Leased, b.Proxies[1].State = 0, "enabled"
	if got := left(api.Stats{Fleet: &f, Backends: []api.Backend{b}}, true); got != "gpu-1: version 7 is not in force yet at proxy-c" {
		t.Errorf("got %s", got)
	}
	b.Proxies[1].State = "draining"
	if got := left(api.Stats{Fleet: &f, Backends: []api.Backend{b}}, true); got != "" {
		t.Errorf("got %s", got)
	}
}

// A line in which nothing but the time has changed is not repeated each second.
func TestDrainSaysMissingOnce(t *testing.T) {
	unseen := func(seconds int) api.Stats {
		s := backends(leased("gpu-1", "draining", 0), leased("gpu-2", "draining", 0))
		s.Fleet = &api.Fleet{Missing: []api.MissingProxy{{ID: "b2", Name: "proxy-b", Why: fmt.Sprintf("not seen for %d s", seconds)}}}
		return s
	}
	var answers []any
	for i := range 5 {
		answers = append(answers, unseen(i+4), unseen(i+4), unseen(i+4), unseen(i+4)) // one in each pollEvery
	}
	other := unseen(9)
	other.Fleet.Missing[0].ID = "c3"
	messages, _, err := waitFor(t, draining, time.Minute, append(answers, other, backends(leased("gpu-1", "draining", 0), leased("gpu-2", "draining", 0)))...)
	if lines := strings.Split(messages, "\n"); err != nil || len(lines) != 4 || !strings.Contains(lines[0], "for 4 s (") || !strings.Contains(lines[1], "forget c3)") {
		t.Errorf("%v, said:\n%s", err, messages)
	}
}

// hangsThen is a proxy that answers once, and then not before its caller has gone.
type hangsThen struct {
	plays
	asked bool
}

func (h *hangsThen) Get(ctx context.Context, path string, query url.Values, to any) error {
	if h.asked {
		<-ctx.Done()
		return ctx.Err()
	}
	h.asked = true
	return h.plays.Get(ctx, path, query, to)
}

// A change is in force everywhere once each proxy has that version or a later one.
func TestInForceEverywhere(t *testing.T) {
	f := playedFleet()
	e := allProxies{proxy: plays{api.Stats{Fleet: &f}}, version: "7", timeout: time.Millisecond, every: time.Hour}
	err := e.wait(t.Context())
	if err == nil || err.Error() != "version 7 is not in force everywhere: proxy-c has version 6; proxy-b: not seen for 12 s: its sessions are not known" {
		t.Errorf("got %v", err)
	}
	e.proxy, e.timeout, e.every = &hangsThen{plays: plays{api.Stats{Fleet: &f}}}, 50*time.Millisecond, time.Millisecond
	if cut := e.wait(t.Context()); cut == nil || cut.Error() != err.Error() {
		t.Errorf("the last question was cut off: %v; want %v", cut, err)
	}
	e.proxy = plays{api.Stats{Fleet: &f}}
	f.Missing, f.Proxies = nil, f.Proxies[:1]
	if err := e.wait(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
	e.proxy = plays{api.Stats{}}
	if err := e.wait(t.Context()); err != nil {
		t.Errorf("a proxy without a fleet: %v", err)
	}
	for _, k := range []struct {
		has, wanted string
		reached     bool
	}{{"7", "7", true}, {"10", "9", true}, {"9", "10", false}, {"a1", "a1", true}, {"a2", "a1", false}} {
		if reached(k.has, k.wanted) != k.reached {
			t.Errorf("%s and %s", k.has, k.wanted)
		}
	}
}

// Tables show which part of a server's places the proxy has only where they are about this proxy, and nothing of it without others.
func TestPartOfPlaces(t *testing.T) {
	f := playedFleet()
	stats := &api.Stats{Fleet: &f, Backends: []api.Backend{{
		Name: "gpu-1", Service: "stt", Pool: api.Pool{State: "enabled", Cap: 16, Limit: 5}, Places: &api.Places{Grant: 5, Granted: 16, Cap: 16},
	}}}
	content := config.NewContent()
	content.Backends["gpu-1"] = config.Backend{Service: "stt", URL: "ws://gpu-1:80"}
	for _, c := range []struct {
		mode         string
		whole        bool
		says, cap    string
		hasPart, has bool
	}{
		{api.FleetShare, true, "All numbers are the sums of 2 of 3 proxies; --local shows only this one (*).", "16", false, true},
		{api.FleetShare, false, "All numbers are those of this proxy (*), one of 3 proxies.", "5 of 16", true, true},
		{api.FleetAlone, false, "", "16", false, false},
	} {
		f.Mode, f.Whole = c.mode, c.whole
		var out strings.Builder
		if err := (&proxyStatus{Stats: *stats, Well: true}).print(&out, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), "proxies") != (c.says != "") {
			t.Errorf("%s: the status does not say %q:\n%s", c.mode, c.says, out.String())
		}
		if cells := (&proxyStatus{Stats: *stats}).backends(time.Now()); cells[0][4] != c.cap {
			t.Errorf("%s: the cap is %q", c.mode, cells[0][4])
		}
		heads := backendRows(&content, []string{"gpu-1"}, stats).heads
		if slices.Contains(heads, "GRANT") != c.hasPart || slices.Contains(heads, "GRANTED") != c.has {
			t.Errorf("%s: the heads of backends are %q", c.mode, heads)
		}
	}
}
