package admin

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const operatorSecret, readerSecret = "operator-s3cret", "reader-s3cret"

// maxWrong is how many wrong tokens an address may send in a minute.
const maxWrong = 10

// rolesRig is an API with two tokens. Its actions are what a test makes of them.
type rolesRig struct {
	handler http.Handler
	audit   *Audit
	log     bytes.Buffer
}

func startRoles(operator, reader string, trusted func(*http.Request) string) *rolesRig {
	rig := new(rolesRig)
	guesses := auth.NewGuard(limits.Rate{N: maxWrong, Per: time.Minute}, slog.New(slog.DiscardHandler), time.Now)
	rig.audit = NewAudit(slog.New(slog.NewTextHandler(&rig.log, nil)))
	paused := func(service string) (api.Outcome, error) {
		if service != "stt" {
			return api.Outcome{}, Unknown("service", service, []string{"stt"})
		}
		return api.Outcome{Text: "done"}, nil
	}
	rig.handler = Handler(Source{
		Ready: func() Readiness { return Readiness{} }, Stats: func() api.Stats { return api.Stats{} }, Configuration: http.NotFoundHandler(), Metrics: http.NotFoundHandler(),
		Audit: rig.audit, Actions: Actions{Pause: paused, Resume: paused, Recycle: paused},
		LogLevel: LogLevel{Get: func() string { return "info" }, Set: func(string) error { return errors.New("it is stuck") }, Allowed: []string{"info", "debug"}},
		Tap:      func(api.TapQuery) (Tap, error) { return nil, errors.New("no tap") },
		Sessions: Sessions{All: func() []api.Session { return nil }, Ended: func() []api.Session { return nil }},
	}, Access{Token: func() string { return operator }, ReaderToken: func() string { return reader }, Trusted: trusted, Guesses: guesses})
	return rig
}

// ask sends a request with a token, from an address; empty for the usual one.
func (g *rolesRig) ask(method, path, token, from string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9090"+path, http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set(api.ChangeHeader, "1")
	if from != "" {
		r.RemoteAddr = from
	}
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	return w
}

// Readers see everything and change nothing; a tap shows what clients send, so it is not for them.
func TestRoles(t *testing.T) {
	trusted, untrusted := func(*http.Request) string { return api.RoleOperator }, func(*http.Request) string { return "" }
	loopback := func(*http.Request) string { return api.RoleReader }
	for name, c := range map[string]struct {
		operator, reader string
		trusted          func(*http.Request) string
		token            string
		read, change     int // the statuses
		caller           string
	}{
		"operator":                        {operatorSecret, readerSecret, untrusted, operatorSecret, 200, 200, "operator token"},
		"reader":                          {operatorSecret, readerSecret, untrusted, readerSecret, 200, 403, "reader token"},
		"no token":                        {operatorSecret, readerSecret, trusted, "", 401, 401, ""},
		"a stranger":                      {operatorSecret, readerSecret, trusted, "wrong", 401, 401, ""},
		"readers only: reader":            {"", readerSecret, trusted, readerSecret, 200, 403, "reader token"},
		"readers only: this machine":      {"", readerSecret, trusted, "", 200, 200, "this machine"},
		"readers only: wrong, from here":  {"", readerSecret, trusted, "wrong", 401, 401, ""},
		"readers only: elsewhere":         {"", readerSecret, untrusted, "", 401, 401, ""},
		"no tokens: this machine":         {"", "", trusted, "", 200, 200, "this machine"},
		"no tokens: a loopback address":   {"", "", loopback, "", 200, 403, "this machine"},
		"no tokens: a token":              {"", "", trusted, "anything", 200, 200, "this machine"},
		"no tokens: elsewhere":            {"", "", untrusted, "", 403, 403, ""},
		"no reader: the empty token":      {operatorSecret, "", untrusted, " ", 401, 401, ""},
		"operators only: the other token": {operatorSecret, "", untrusted, readerSecret, 401, 401, ""},
	} {
		rig := startRoles(c.operator, c.reader, c.trusted)
		w := rig.ask(http.MethodGet, api.AccessPath, c.token, "")
		if w.Code != c.read || c.caller != "" && !strings.Contains(w.Body.String(), fmt.Sprintf("%q", c.caller)) {
			t.Errorf("%s: status %d, %s; want %d, %s", name, w.Code, w.Body, c.read, c.caller)
		}
		for _, path := range []string{api.StatsPath, api.AuditPath, api.SessionsPath, api.OpenAPIPath, api.LogLevelPath} {
			if w := rig.ask(http.MethodGet, path, c.token, ""); w.Code != c.read {
				t.Errorf("%s, %s: status %d; want %d", name, path, w.Code, c.read)
			}
		}
		unknown := c.read // so that no stranger has the whole fleet asked
		if unknown == 200 {
			unknown = 404
		}
		if w := rig.ask(http.MethodGet, api.SessionsPath+"/", c.token, ""); w.Code != unknown {
			t.Errorf("%s: an unknown path: status %d; want %d", name, w.Code, unknown)
		}
		if w := rig.ask(http.MethodPost, "/api/v1/services/stt/pause", c.token, ""); w.Code != c.change {
			t.Errorf("%s: a change: status %d; want %d", name, w.Code, c.change)
		}
		tap := 500 // our tap fails
		if c.change != 200 {
			tap = c.change
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			want := tap
			if method == http.MethodHead && c.change == 200 {
				want = 200
			}
			if w := rig.ask(method, api.TapPath+"?service=", c.token, ""); w.Code != want && w.Code != 400 {
				t.Errorf("%s: %s a tap: status %d; want %d", name, method, w.Code, want)
			} else if c.change != 200 && w.Code != c.change {
				t.Errorf("%s: %s a tap: status %d; want %d", name, method, w.Code, c.change)
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if w := rig.ask(http.MethodGet, path, "", ""); w.Code != 200 {
				t.Errorf("%s: %s: status %d", name, path, w.Code)
			}
		}
	}
}

// A proxy of the fleet may do what the token allows that it has proven to know. A wrong proof counts as a wrong token does.
func TestPeer(t *testing.T) {
	guesses := auth.NewGuard(limits.Rate{N: maxWrong, Per: time.Minute}, slog.New(slog.DiscardHandler), time.Now)
	access := Access{
		Token: func() string { return operatorSecret }, ReaderToken: func() string { return readerSecret }, Guesses: guesses,
		Peer: func(r *http.Request, operator, reader string) (name string, isOperator, isReader bool, err error) {
			if operator != operatorSecret || reader != readerSecret {
				t.Errorf("the tokens are %q and %q", operator, reader)
			}
			switch r.Header.Get("Authorization") {
			case "Proof operator":
				return "proxy b", true, false, nil
			case "Proof reader":
				return "proxy b", false, true, nil
			case "Proof replayed":
				return "proxy b", false, false, errors.New("the request was made before")
			case "Proof wrong":
				return "proxy b", false, false, nil
			}
			return "", false, false, nil
		},
	}
	guard := Guard(access, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := CallerOf(r)
		fmt.Fprint(w, c.Name, ", ", c.Role)
	}))
	ask := func(method, credentials string) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1:9090/", http.NoBody)
		r.Header.Set("Authorization", credentials)
		r.Header.Set(api.ChangeHeader, "1")
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		method, credentials string
		status              int
		says                string
	}{
		{"POST", "Proof operator", 200, "proxy b, operator"},
		{"GET", "Proof reader", 200, "proxy b, reader"},
		{"POST", "Proof reader", 403, "the proxy b may only read"},
		{"GET", "Proof replayed", 401, "the request was made before"},
		{"GET", "Proof wrong", 401, wrongToken},
		{"POST", "Bearer " + operatorSecret, 200, "operator token, operator"},
	} {
		if status, text := ask(c.method, c.credentials); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d, %s", c.method, c.credentials, status, text)
		}
	}
	for range maxWrong {
		ask("GET", "Proof wrong")
	}
	if status, text := ask("GET", "Proof wrong"); status != 429 {
		t.Errorf("after many wrong ones: %d, %s", status, text)
	}
	if status, text := ask("GET", "Proof operator"); status != 200 {
		t.Errorf("a proxy beside one that guesses: %d, %s", status, text)
	}
}

// Every action is noted with who, from where, what and the result: also one that failed and one that was refused.
func TestEveryActionIsNoted(t *testing.T) {
	rig := startRoles(operatorSecret, readerSecret, nil)
	for _, c := range []struct {
		method, path, token string
		want                api.Action
	}{
		{"POST", "/api/v1/services/stt/pause", operatorSecret, api.Action{Action: "pause", Target: "stt", Result: "done", Role: "operator", Caller: "operator token", Detail: "done"}},
		{"POST", "/api/v1/services/stx/pause", operatorSecret, api.Action{Action: "pause", Target: "stx", Result: "failed", Role: "operator", Caller: "operator token", Detail: `unknown service "stx": did you mean "stt"?`}},
		{"GET", "/api/v1/tap?session=x", operatorSecret, api.Action{Action: "tap", Target: "x", Result: "failed", Role: "operator", Caller: "operator token"}},
		{"POST", "/api/v1/services/stt/resume", readerSecret, api.Action{Action: "resume", Target: "stt", Result: "refused", Role: "reader", Caller: "reader token", Detail: "the reader token may only read: this needs the token of operators (--admin-token)"}},
		{"DELETE", "/api/v1/sessions/q-1%0a", "", api.Action{Action: "kill", Target: "q-1?", Result: "refused", Detail: "the admin API needs a token (Authorization: Bearer TOKEN)"}},
		{"POST", "/api/v1/config/changes", readerSecret, api.Action{Action: "configure", Target: "/api/v1/config/changes", Result: "refused", Role: "reader", Caller: "reader token", Detail: "the reader token may only read: this needs the token of operators (--admin-token)"}},
		{"GET", "/api/v1/sessions", "wr0ng", api.Action{Action: "login", Result: "refused", Detail: "wrong token for the admin API"}},
	} {
		_, before := rig.audit.Since(0)
		rig.log.Reset()
		rig.ask(c.method, c.path, c.token, "192.0.2.7:99")
		got, _ := rig.audit.Since(before)
		if len(got) != 1 {
			t.Errorf("%s %s: %d actions were noted", c.method, c.path, len(got))
			continue
		}
		c.want.From, c.want.Time = "192.0.2.7:99", got[0].Time
		if c.want.Detail == "" {
			c.want.Detail = got[0].Detail
		}
		if got[0] != c.want || got[0].Time.IsZero() {
			t.Errorf("%s %s: noted %+v; want %+v", c.method, c.path, got[0], c.want)
		}
		log := rig.log.String()
		if strings.Contains(log, "WARN") != (c.want.Result == "refused") || !strings.Contains(log, "result="+c.want.Result) || !strings.Contains(log, "from=192.0.2.7:99") {
			t.Errorf("%s %s: logged %q", c.method, c.path, log)
		}
		if strings.Contains(log, "s3cret") || strings.Contains(log, "wr0ng") {
			t.Errorf("a token is logged: %s", log)
		}
	}
	_, before := rig.audit.Since(0)
	for _, path := range []string{"/api/v1/sessions", "/healthz"} {
		rig.ask("GET", path, readerSecret, "")
		rig.ask("GET", path, "", "")
	}
	rig.ask("PUT", "/api/v1/log/level", operatorSecret, "") // it has no body
	if _, after := rig.audit.Since(0); after != before {
		t.Error("what is no action was noted")
	}
}

// Refused requests neither push actions out of the audit log nor fill the log.
func TestRefusedActionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := startRoles(operatorSecret, "", nil)
		for i := range 1000 {
			rig.ask("POST", "/api/v1/services/stt/pause", "", fmt.Sprintf("192.0.2.%d:1", i%250))
		}
		if _, n := rig.audit.Since(0); n != maxRefused {
			t.Errorf("%d refused requests were noted; want %d", n, maxRefused)
		}
		time.Sleep(refusedEvery)
		rig.ask("POST", "/api/v1/services/stt/pause", "", "")
		if _, n := rig.audit.Since(0); n != maxRefused+1 || !strings.Contains(rig.log.String(), "too many to list\" count=980") {
			t.Errorf("after a while %d are noted, and the log says %q", n, rig.log.String()[max(0, rig.log.Len()-600):])
		}
	})
}

// An address that sends wrong tokens must wait before the next one. A right one is taken meanwhile, since another user may share the address.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := startRoles(operatorSecret, readerSecret, nil)
		const guesser = "[2001:db8:1:2::5]:4000"
		for i := range maxWrong {
			if w := rig.ask("GET", api.AccessPath, fmt.Sprint("guess", i), guesser); w.Code != http.StatusUnauthorized {
				t.Fatalf("attempt %d: status %d", i, w.Code)
			}
		}
		if w := rig.ask("GET", api.AccessPath, "guess", "[2001:db8:1:2:ffff::9]:7"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "6" {
			t.Errorf("a wrong token: status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		if w := rig.ask("GET", api.AccessPath, operatorSecret, guesser); w.Code != http.StatusOK {
			t.Errorf("the right token: status %d", w.Code)
		}
		for from, want := range map[string]int{"[2001:db8:1:3::5]:4000": 200, "192.0.2.1:1": 200, "[::ffff:192.0.2.1]:1": 200} {
			if w := rig.ask("GET", api.AccessPath, operatorSecret, from); w.Code != want {
				t.Errorf("%s: status %d; want %d", from, w.Code, want)
			}
		}
		if w := rig.ask("GET", "/healthz", "", guesser); w.Code != 200 {
			t.Errorf("/healthz: status %d", w.Code)
		}
		time.Sleep(time.Minute / maxWrong)
		if w := rig.ask("GET", api.AccessPath, "guess", guesser); w.Code != http.StatusUnauthorized {
			t.Errorf("a wrong token after a while: status %d", w.Code)
		}
	})
}
