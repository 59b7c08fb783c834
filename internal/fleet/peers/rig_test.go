package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// rig is a fleet whose proxies' own answers the test plays.
type rig struct {
	t       *testing.T
	proxies []*proxy
	members []fleet.Member
	unseen  map[fleet.ID]time.Duration
}

// proxy is one of them.
type proxy struct {
	rig    *rig
	id     fleet.ID
	name   string
	peers  *Peers
	server *httptest.Server
	token  string // both to prove and to be proven; empty for none
	reader string
	caller string              // who sent the last request, as it was proven
	seen   func(*http.Request) // gets each request as it arrives; may be nil
	asked  []string            // requests that reached its own API
	own    http.HandlerFunc
}

func (p *proxy) Status() *agent.Status {
	return &agent.Status{Mode: agent.Shared, Self: p.id, Members: p.rig.members, Unseen: p.rig.unseen}
}

func (p *proxy) Forget(context.Context, fleet.ID) error { return nil }

// newRig returns a fleet of proxies with these names.
func newRig(t *testing.T, names ...string) *rig {
	r := &rig{t: t, unseen: make(map[fleet.ID]time.Duration)}
	for i, name := range names {
		p := &proxy{rig: r, id: fleet.ID(strings.Repeat(string(rune('a'+i)), 16)), name: name}
		p.peers = New(Options{Ledger: p, Timeout: wstest.Timeout, Token: func() string { return p.token }, Announced: func(at string) bool { return at == p.server.URL }})
		p.server = httptest.NewServer(http.HandlerFunc(p.serve))
		t.Cleanup(p.server.Close)
		t.Cleanup(p.peers.Close)
		r.proxies = append(r.proxies, p)
		r.members = append(r.members, fleet.Member{ID: p.id, Name: name, Address: p.server.URL, Host: "here", State: fleet.Serving})
	}
	return r
}

// serve is the proxy's admin API. It admits the test, and other proxies with a proof or if there is no token. Who is there, all may ask.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	if p.seen != nil {
		p.seen(r)
	}
	p.peers.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		name, isOperator, isReader, err := p.peers.Proven(r, p.token, p.reader)
		p.caller = fmt.Sprintf("%s %t %t", name, isOperator, isReader)
		switch {
		case p.token+p.reader == "" || isOperator || isReader || r.Header.Get(api.PeerHeader) == "":
			p.asked = append(p.asked, r.Method+" "+r.URL.String())
			p.own(w, r)
		case err != nil:
			fail(w, http.StatusUnauthorized, api.KindRefused, err.Error())
		default:
			fail(w, http.StatusUnauthorized, api.KindRefused, "wrong token for the admin API")
		}
	})).ServeHTTP(w, r)
}

// answer has a proxy answer all requests with a status and a value.
func (p *proxy) answer(status int, value any) {
	p.own = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

// fail has a proxy answer all requests with an error.
func (p *proxy) fail(status int, kind, text string) {
	var f api.Failure
	f.Error.Kind, f.Error.Text = kind, text
	p.answer(status, f)
}

// ask sends a request to a proxy and decodes its answer into to.
func (p *proxy) ask(method, path string, to any, headers ...string) (status int) {
	p.rig.t.Helper()
	body := ""
	if method != http.MethodGet {
		body = `{"who":"alice"}`
	}
	r, err := http.NewRequestWithContext(p.rig.t.Context(), method, p.server.URL+path, strings.NewReader(body))
	if err != nil {
		p.rig.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := p.server.Client().Do(r)
	if err != nil {
		p.rig.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		p.rig.t.Fatal(err)
	}
	return answer.StatusCode
}

// refusal sends a request that is refused, and returns the error's text.
func (p *proxy) refusal(method, path string, want int, headers ...string) string {
	p.rig.t.Helper()
	var f api.Failure
	if status := p.ask(method, path, &f, headers...); status != want {
		p.rig.t.Errorf("%s %s: status %d, want %d", method, path, status, want)
	}
	return f.Error.Text
}
