package remote

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
)

// opened returns a new store.
func opened(t *testing.T) config.Store {
	t.Helper()
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "config.db"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// handled answers a request with the API of a store.
func handled(store config.Store, o HandlerOptions, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(store, o).ServeHTTP(w, r)
	return w
}

const addition = `{"who":"alice","mutations":[{"verb":"add","kind":"service","name":"stt"}]}`

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9090/api/v1/config/changes", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func always(token string) func() string { return func() string { return token } }

// The token that is asked for is the one of the moment.
func TestTokenChanges(t *testing.T) {
	token := "first"
	h := Handler(opened(t), HandlerOptions{Token: func() string { return token }, Writable: local})
	ask := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090/api/v1/config", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
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

func TestGuard(t *testing.T) {
	store := opened(t)
	open, never := HandlerOptions{Writable: local}, HandlerOptions{Writable: func(*http.Request) bool { return false }}
	token := HandlerOptions{Token: always("s3cret-token"), Writable: local}
	for _, c := range []struct {
		name    string
		options HandlerOptions
		header  map[string]string
		host    string
		status  int
		says    string
	}{
		{"this machine", open, nil, "", 200, ""},
		{"localhost", open, nil, "localhost:9090", 200, ""},
		{"IPv6", open, nil, "[::1]:9090", 200, ""},
		{"typed into a browser", open, map[string]string{"Sec-Fetch-Site": "none"}, "", 200, ""},
		{"elsewhere", never, nil, "", 403, "use the admin socket or a loopback address to read or change the configuration, or set --admin-token"},
		{"nobody says", HandlerOptions{}, nil, "", 403, "use the admin socket"},
		{"a page", open, map[string]string{"Origin": "http://evil.example"}, "", 403, "web pages may not use this API"},
		{"a page's image", open, map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403, "web pages may not use this API"},
		{"a neighbour's page", open, map[string]string{"Sec-Fetch-Site": "same-site"}, "", 403, "web pages may not use this API"},
		{"a name that points here", open, nil, "evil.example:9090", 403, `"evil.example:9090": use an IP address or localhost, or set --admin-token`},
		{"a name like an address", open, nil, "127.0.0.1.evil.example", 403, "use an IP address or localhost"},
		{"no host", open, nil, " ", 403, "use an IP address or localhost"},
		{"through another proxy", open, map[string]string{"X-Forwarded-For": "192.0.2.1"}, "", 403, "X-Forwarded-For"},
		{"no token", token, nil, "", 401, "needs a token"},
		{"wrong token", token, map[string]string{"Authorization": "Bearer s3cret-tokem"}, "", 401, "wrong token"},
		{"half a token", token, map[string]string{"Authorization": "Bearer s3cret"}, "", 401, "wrong token"},
		{"token as a password", token, map[string]string{"Authorization": "Basic s3cret-token"}, "", 401, "wrong token"},
		{"empty token", token, map[string]string{"Authorization": "Bearer "}, "", 401, "needs a token"},
		{"right token", token, map[string]string{"Authorization": "Bearer s3cret-token"}, "", 200, ""},
		{"right token, any way", HandlerOptions{Token: always("s3cret-token")}, map[string]string{"Authorization": "bearer s3cret-token", "Via": "1.1 x"}, "gpu.example:9090", 200, ""},
		{"a page with the right token", token, map[string]string{"Authorization": "Bearer s3cret-token", "Origin": "null"}, "", 403, "web pages"},
	} {
		for _, path := range []string{"/api/v1/config", "/api/v1/config/version", "/api/v1/config/history", "/api/v1/config/versions/0", ""} {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+path, http.NoBody)
			if path == "" {
				r = post(strings.Replace(addition, "{", `{"dry_run":true,`, 1))
			}
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			if c.host != "" {
				r.Host = c.host
			}
			w := handled(store, c.options, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), strings.ReplaceAll(c.says, `"`, `\"`)) {
				t.Errorf("%s, %s: status %d, %s; want %d, %s", c.name, r.URL.Path, w.Code, w.Body, c.status, c.says)
			}
			if strings.Contains(w.Body.String(), "s3cret") {
				t.Errorf("%s: the answer shows the token: %s", c.name, w.Body)
			}
			if (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%s: status %d with WWW-Authenticate %q", c.name, w.Code, w.Header().Get("WWW-Authenticate"))
			}
		}
	}
}
