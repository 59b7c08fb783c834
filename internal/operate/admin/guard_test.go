package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func local(*http.Request) string { return api.RoleOperator }

func always(token string) func() string { return func() string { return token } }

// guarded asks a guarded handler and returns the answer. Status 200 and no body are for requests that the guard passed on.
func guarded(access admin.Access, method, host string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:9090/api/v1/config", http.NoBody)
	if host != "" {
		r.Host = host
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	admin.Guard(access, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w
}

func TestGuard(t *testing.T) {
	type header = map[string]string
	never := func(*http.Request) string { return "" }
	open, closed := admin.Access{Trusted: local}, admin.Access{Trusted: never}
	token := admin.Access{Token: always("s3cret-token"), Trusted: local}
	right := "Bearer s3cret-token"
	for _, c := range []struct {
		name   string
		access admin.Access
		header header
		host   string
		status int
		says   string
	}{
		{"this machine", open, nil, "", 200, ""},
		{"localhost", open, nil, "localhost:9090", 200, ""},
		{"IPv6", open, nil, "[::1]:9090", 200, ""},
		{"typed into a browser", open, header{"Sec-Fetch-Site": "none"}, "", 200, ""},
		{"the dashboard", open, header{"Sec-Fetch-Site": "same-origin"}, "", 200, ""},
		{"the dashboard changes something", open, header{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:9090"}, "", 200, ""},
		{"the dashboard in an old browser", open, header{"Origin": "http://127.0.0.1:9090"}, "", 200, ""},
		{"the dashboard by name", open, header{"Origin": "http://localhost:9090"}, "LocalHost:9090", 200, ""},
		{"elsewhere", closed, nil, "", 403, "use the admin socket or a loopback address, or set --admin-token"},
		{"no peer address", admin.Access{}, nil, "", 403, "use the admin socket"},
		{"a page", open, header{"Origin": "http://evil.example"}, "", 403, "pages of other origins may not use this API"},
		{"a page without an origin", open, header{"Origin": "null"}, "", 403, "pages of other origins"},
		{"a page of another port", open, header{"Origin": "http://127.0.0.1:8080"}, "", 403, "pages of other origins"},
		{"a page of no port", open, header{"Origin": "http://127.0.0.1"}, "", 403, "pages of other origins"},
		{"a page of another address of this machine", open, header{"Origin": "http://localhost:9090"}, "", 403, "pages of other origins"},
		{"a page with our host as its user", open, header{"Origin": "http://127.0.0.1:9090@evil.example"}, "", 403, "pages of other origins"},
		{"a page whose name begins like ours", open, header{"Origin": "http://127.0.0.1:9090.evil.example"}, "", 403, "pages of other origins"},
		{"an extension", open, header{"Origin": "chrome-extension://127.0.0.1:9090"}, "", 403, "pages of other origins"},
		{"our origin, another site", open, header{"Origin": "http://127.0.0.1:9090", "Sec-Fetch-Site": "cross-site"}, "", 403, "pages of other origins"},
		{"another origin, same site", open, header{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, "", 403, "pages of other origins"},
		{"a page's image", open, header{"Sec-Fetch-Site": "cross-site"}, "", 403, "pages of other origins"},
		{"a neighbour's page", open, header{"Sec-Fetch-Site": "same-site"}, "", 403, "pages of other origins"},
		{"a new kind of site", open, header{"Sec-Fetch-Site": "nearby"}, "", 403, "pages of other origins"},
		{"a name that points here", open, nil, "evil.example:9090", 403, `"evil.example:9090": use an IP address or localhost, or set --admin-token`},
		{"a page by a name that points here", open, header{"Origin": "http://evil.example:9090", "Sec-Fetch-Site": "same-origin"}, "evil.example:9090", 403, "use an IP address or localhost"},
		{"a name like an address", open, nil, "127.0.0.1.evil.example", 403, "use an IP address or localhost"},
		{"no host", open, nil, " ", 403, "use an IP address or localhost"},
		{"no host, and an origin without one", token, header{"Origin": "http://", "Authorization": right}, " ", 403, "pages of other origins"},
		{"through another proxy", open, header{"X-Forwarded-For": "192.0.2.1"}, "", 403, "X-Forwarded-For"},
		{"through another proxy that says little", open, header{"Via": ""}, "", 403, "Via"},
		{"the dashboard through another proxy", open, header{"X-Forwarded-Host": "admin.example", "Origin": "http://127.0.0.1:9090"}, "", 403, "X-Forwarded-Host"},
		{"no token", token, nil, "", 401, "needs a token"},
		{"the dashboard without the token", token, header{"Origin": "http://127.0.0.1:9090", "Sec-Fetch-Site": "same-origin"}, "", 401, "needs a token"},
		{"wrong token", token, header{"Authorization": "Bearer s3cret-tokem"}, "", 401, "wrong token"},
		{"half a token", token, header{"Authorization": "Bearer s3cret"}, "", 401, "wrong token"},
		{"token as a password", token, header{"Authorization": "Basic s3cret-token"}, "", 401, "wrong token"},
		{"empty token", token, header{"Authorization": "Bearer "}, "", 401, "needs a token"},
		{"right token", token, header{"Authorization": right}, "", 200, ""},
		{"right token, any way", admin.Access{Token: always("s3cret-token")}, header{"Authorization": "bearer s3cret-token", "Via": "1.1 x"}, "gpu.example:9090", 200, ""},
		{"the dashboard behind TLS with the token", token, header{"Authorization": right, "Origin": "https://gpu.example", "X-Forwarded-For": "192.0.2.1"}, "gpu.example", 200, ""},
		{"a page with the right token", token, header{"Authorization": right, "Origin": "null"}, "", 403, "pages of other origins"},
		{"a page by a name that points here, without the token", token, header{"Origin": "http://evil.example:9090"}, "evil.example:9090", 401, "needs a token"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions} {
			header := header{api.ChangeHeader: "1"}
			for name, value := range c.header {
				header[name] = value
			}
			w := guarded(c.access, method, c.host, header)
			if w.Code != c.status || !strings.Contains(w.Body.String(), strings.ReplaceAll(c.says, `"`, `\"`)) {
				t.Errorf("%s, %s: status %d, %s; want %d, %s", c.name, method, w.Code, w.Body, c.status, c.says)
			}
			if strings.Contains(w.Body.String(), "s3cret") {
				t.Errorf("%s: the answer shows the token: %s", c.name, w.Body)
			}
			if (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%s: status %d with WWW-Authenticate %q", c.name, w.Code, w.Header().Get("WWW-Authenticate"))
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: other origins may read the answer", c.name)
			}
		}
	}
}

// A change has something that a page of another origin cannot send without a preflight request, even in a browser that says
// nothing of the page.
func TestProofOfChange(t *testing.T) {
	open, token := admin.Access{Trusted: local}, admin.Access{Token: always("s3cret")}
	for _, c := range []struct {
		name   string
		access admin.Access
		header map[string]string
		status int
		says   string
	}{
		{"nothing", open, nil, 403, "send the header " + api.ChangeHeader},
		{"the header", open, map[string]string{api.ChangeHeader: "1"}, 200, ""},
		{"an empty header", open, map[string]string{api.ChangeHeader: ""}, 403, "send the header"},
		{"JSON", open, map[string]string{"Content-Type": "application/json"}, 200, ""},
		{"JSON with a charset", open, map[string]string{"Content-Type": "Application/JSON; charset=utf-8"}, 200, ""},
		{"text", open, map[string]string{"Content-Type": "text/plain"}, 415, "use application/json"},
		{"a form", open, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415, "use application/json"},
		{"text that says JSON", open, map[string]string{"Content-Type": "text/plain; application/json"}, 415, "use application/json"},
		{"text with JSON as a parameter", open, map[string]string{"Content-Type": "text/plain; x=application/json"}, 415, "use application/json"},
		{"text with the header", open, map[string]string{"Content-Type": "text/plain", api.ChangeHeader: "1"}, 200, ""},
		{"the token", token, map[string]string{"Authorization": "Bearer s3cret"}, 200, ""},
		{"a wrong token", token, map[string]string{"Authorization": "Bearer wrong", api.ChangeHeader: "1"}, 401, "wrong token"},
		{"a token that is not asked for", open, map[string]string{"Authorization": "Bearer s3cret"}, 403, "send the header"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "FROB"} {
			if w := guarded(c.access, method, "", c.header); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s, %s: status %d, %s; want %d, %s", c.name, method, w.Code, w.Body, c.status, c.says)
			}
		}
	}
}

// Several headers of one name count all: a lenient client may send more than the browser's own.
func TestRepeatedHeaders(t *testing.T) {
	for name, values := range map[string][]string{
		"Origin":         {"http://127.0.0.1:9090", "http://evil.example"},
		"Sec-Fetch-Site": {"same-origin", "cross-site"},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090/", http.NoBody)
		r.Header[name] = values
		w := httptest.NewRecorder()
		admin.Guard(admin.Access{Trusted: local}, http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s %v: status %d", name, values, w.Code)
		}
	}
}

// The token that is asked for is the one of the moment.
func TestTokenChanges(t *testing.T) {
	token := "first"
	access := admin.Access{Token: func() string { return token }, Trusted: local}
	ask := func(token string) int {
		return guarded(access, http.MethodGet, "", map[string]string{"Authorization": "Bearer " + token}).Code
	}
	if first, second := ask("first"), ask("second"); first != 200 || second != 401 {
		t.Errorf("statuses %d and %d", first, second)
	}
	token = "second"
	if first, second := ask("first"), ask("second"); first != 401 || second != 200 {
		t.Errorf("after the change: statuses %d and %d", first, second)
	}
	token = ""
	if none := ask("any"); none != 200 {
		t.Errorf("without a token: status %d", none)
	}
}

// Everything is guarded but what monitoring and load balancers ask for.
func TestGuardedPaths(t *testing.T) {
	rig := start(t)
	open := []string{"/healthz", "/readyz", "/metrics", "/"}
	closed := []string{"/api/v1/stats", "/api/v1/access", "/api/v1/config", "/api/v1/config/", "/api/v1/config/history", "/api/v1/config/changes", "/api/v1/audit"}
	ask := func(path string) int {
		r := httptest.NewRequest(http.MethodGet, rig.server.URL+path, http.NoBody)
		r.Header.Set("Origin", "http://evil.example")
		w := httptest.NewRecorder()
		rig.server.Config.Handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range open {
		if got := ask(path); got != http.StatusOK {
			t.Errorf("%s: status %d; no token should be needed", path, got)
		}
	}
	for _, path := range closed {
		if got := ask(path); got != http.StatusForbidden {
			t.Errorf("%s: status %d; it should be guarded", path, got)
		}
	}
}
