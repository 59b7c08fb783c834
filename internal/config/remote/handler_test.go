package remote

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
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

// What is said of requests that are not right.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func() *http.Request
		status int
		says   string
	}{
		{"a form", func() *http.Request {
			r := post(addition)
			r.Header.Set("Content-Type", "text/plain")
			return r
		}, 415, `invalid Content-Type \"text/plain\": use application/json`},
		{"with a charset", func() *http.Request {
			r := post(addition)
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			return r
		}, 200, `"version": "1"`},
		{"nothing", func() *http.Request { return post("") }, 400, "invalid change: EOF: use the keys who"},
		{"an unknown key", func() *http.Request { return post(`{"who":"a","mutation":[]}`) }, 400, `unknown field \"mutation\": use the keys`},
		{"two values", func() *http.Request { return post(addition + addition) }, 400, "unexpected data"},
		{"no change", func() *http.Request { return post(`{"who":"a"}`) }, 400, "the change is empty"},
		{"a field of an earlier version", func() *http.Request {
			return post(`{"who":"a","mutations":[{"verb":"add","kind":"service","name":"s","values":{"hash-by":"client"}}]}`)
		}, 422, "service s: the field hash-by no longer exists: use balance"},
		{"no author", func() *http.Request { return post(strings.Replace(addition, "alice", "", 1)) }, 400, "who is missing"},
		{"no version", func() *http.Request { return post(`{"who":"a","configuration":{}}`) }, 400, "a whole configuration needs the version"},
		{"unknown sections", func() *http.Request { return post(`{"who":"a","expect":"0","configuration":{"service":{}}}`) }, 400, `unknown field \"service\": use the keys version, services`},
		{"too much", func() *http.Request { return post(`{"who":"` + strings.Repeat("a", maxRequest) + `"}`) }, 413, "more than 8388608 bytes"},
		{"half of it", func() *http.Request {
			r := post("")
			r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
			return r
		}, 400, "cannot read the change: unexpected EOF"},
		{"everything wrong", func() *http.Request {
			return post(`{"who":"a","expect":"0","configuration":{"backends":{"gpu-1":{"connections":0,"service":"x","url":"ws://a/"}}}}`)
		}, 422, `invalid number \"0\": use a whole number from 1 to 100000`},
		{"everything else wrong, too", func() *http.Request {
			return post(`{"who":"a","expect":"0","configuration":{"backends":{"gpu-1":{"connections":0,"service":"x","url":"ws://a/"}}}}`)
		}, 422, `unknown service \"x\": none exists`},
		{"unknown kind", func() *http.Request { return post(strings.Replace(addition, `"service"`, `"servce"`, 1)) }, 422, `did you mean \"service\"?`},
		{"an old version", func() *http.Request { return post(strings.Replace(addition, "{", `{"expect":"7",`, 1)) }, 409, `"current": "0"`},
		{"an old version, dry", func() *http.Request { return post(strings.Replace(addition, "{", `{"expect":"7","dry_run":true,`, 1)) }, 409, `"current": "0"`},
		{"a dry run", func() *http.Request { return post(strings.Replace(addition, "{", `{"dry_run":true,`, 1)) }, 200, `"dry_run": true`},
		{"a dry run, wrong", func() *http.Request {
			return post(`{"who":"a","dry_run":true,"mutations":[{"verb":"add","kind":"service","name":"stt","values":{"queue":-1}}]}`)
		}, 422, `invalid number \"-1\": use a whole number from 0 to 1000000`},
		{"stalled", func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/config/changes", iotest.ErrReader(os.ErrDeadlineExceeded)) // as after the server's ReadTimeout
			r.Header.Set("Content-Type", "application/json")
			return r
		}, 408, "did not arrive in time"},
		{"no such version", func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/api/v1/config/versions/9", http.NoBody)
		}, 404, `"kind": "no-version"`},
		{"wait", func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/api/v1/config/version?wait=2h", http.NoBody)
		}, 400, `wait: invalid duration \"2h\"`},
		{"limit", func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/api/v1/config/history?limit=x", http.NoBody)
		}, 400, `limit: invalid number \"x\"`},
		{"a limit that is too high", func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/api/v1/config/history?limit=1001", http.NoBody)
		}, 400, `limit: invalid number \"1001\": use a whole number from 0 to 1000`},
		{"a method", func() *http.Request { return httptest.NewRequest(http.MethodDelete, "/api/v1/config", http.NoBody) }, 405, `unknown method \"DELETE\" for /api/v1/config: use GET, HEAD`},
		{"a path", func() *http.Request {
			return httptest.NewRequest(http.MethodGet, "/api/v1/config/versons", http.NoBody)
		}, 404, `did you mean \"/api/v1/config/version\"`},
	} {
		r := c.change()
		r.Host = "localhost"
		w := handled(opened(t), HandlerOptions{}, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: status %d, %s; want %d, %s", c.name, w.Code, w.Body, c.status, c.says)
		}
	}
}

// The answers are what docs/reference/admin-api.md shows.
func TestAnswers(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "config.db"), "", config.Options{})
	defer s.Close()
	ask := func(method, path, body string) string {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.server.Config.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s %s: status %d, %s", method, path, w.Code, w.Body)
		}
		var compact strings.Builder
		var value any
		if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
			t.Fatal(err)
		}
		encoder := json.NewEncoder(&compact)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(compact.String())
	}
	const change = `{"who":"alice","why":"first","mutations":[{"verb":"add","kind":"service","name":"stt","values":{"queue":7}},
		{"verb":"add","kind":"backend","name":"gpu-1","values":{"service":"stt","url":"ws://10.0.0.5:2700","connections":100,"labels":{"zone":"a"},"headers.X-A":"b"}}]}`
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/api/v1/config", "", `{"backends":{},"keys":{},"profiles":{},"services":{},"tenants":{},"version":"0"}`},
		{"GET", "/api/v1/config/history", "", `[]`},
		{"POST", "/api/v1/config/changes", change, `{"edits":[{"action":"added","kind":"service","name":"stt","values":{"queue":"7"}},` +
			`{"action":"added","kind":"backend","name":"gpu-1","values":{"headers.X-A":"(hidden)","labels.zone":"a","service":"stt","url":"ws://10.0.0.5:2700"}}],"version":"1"}`},
		{"POST", "/api/v1/config/changes", `{"who":"alice","why":"first","mutations":[{"verb":"set","kind":"service","name":"stt","values":{"queue":7}}]}`, `{"edits":[],"version":"1"}`},
		{
			"POST", "/api/v1/config/changes", `{"who":"bob","mutations":[{"verb":"set","kind":"service","name":"stt","values":{"queue":null}}]}`,
			`{"edits":[{"action":"changed","field":"queue","from":"7","kind":"service","name":"stt","to":"1000"}],"version":"2"}`,
		},
		{"GET", "/api/v1/config/versions/1", "", `{"backends":{"gpu-1":{"headers":{"X-A":"b"},"labels":{"zone":"a"},"service":"stt","url":"ws://10.0.0.5:2700"}},` +
			`"keys":{},"profiles":{},"services":{"stt":{"queue":7}},"tenants":{},"version":"1"}`},
		{"GET", "/api/v1/config/version", "", `{"version":"2"}`},
		{"GET", "/api/v1/config/version?unlike=1&wait=1m", "", `{"version":"2"}`},
		{"GET", "/api/v1/config/version?unlike=2&wait=1ms", "", `{"version":"2"}`},
	} {
		if got := ask(c.method, c.path, c.body); got != c.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.method, c.path, got, c.want)
		}
	}
	if got := ask("GET", "/api/v1/config/history?limit=1", ""); !strings.Contains(got, `"who":"bob"`) || strings.Contains(got, "alice") {
		t.Errorf("the latest revision: %s", got)
	}
}

// A file that has its old content again has its old version, too. The answer to a change has the edits of this change, not of the older one.
func TestSameVersionAgain(t *testing.T) {
	store, err := file.Open(filepath.Join(t.TempDir(), "config.yaml"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, c := range []struct{ change, want string }{
		{addition, `"action": "added"`},
		{`{"who":"alice","mutations":[{"verb":"set","kind":"service","name":"stt","values":{"queue":8}}]}`, `"to": "8"`},
		{`{"who":"alice","mutations":[{"verb":"set","kind":"service","name":"stt","values":{"queue":null}}]}`, `"from": "8"`},
	} {
		if got := handled(store, HandlerOptions{}, post(c.change)).Body.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s; want %s", c.change, got, c.want)
		}
	}
}

// Too many who wait are sent away, and who waits is told of a change.
func TestWaiting(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "config.db"), "", config.Options{})
	defer s.Close()
	h := &handler{store: s.store, waiting: make(chan struct{}, 1)}
	h.waiting <- struct{}{}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/config/version?unlike=0&wait=1m", http.NoBody)
	if _, err := h.version(r); err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("one too many: %v", err)
	}
	<-h.waiting
	content := configtest.Small()
	before, err := s.Apply(t.Context(), config.Change{Who: "x", Expect: "0", Content: &content}) // makes the tables
	if err != nil {
		t.Fatal(err)
	}
	r = httptest.NewRequest(http.MethodGet, "/api/v1/config/version?unlike="+before.Version()+"&wait=1m", http.NoBody)
	got := make(chan any)
	go func() {
		answer, err := h.version(r)
		if err != nil {
			t.Error(err)
		}
		got <- answer
	}()
	after, err := s.Apply(t.Context(), config.Change{Who: "x", Expect: before.Version(), Content: &config.Content{}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(<-got)
	if err != nil || string(body) != `{"version":"`+after.Version()+`"}` {
		t.Errorf("who waited got %s, %v", body, err)
	}
}
