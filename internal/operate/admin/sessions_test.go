package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// someSessions are a waiting client, two sessions and an ended one.
func someSessions(killed map[string]string) Sessions {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := []api.Session{
		{ID: "aaaaaaaa-1", Service: "stt", Backend: "gpu-1", Client: "10.0.0.1:5000", State: api.StateRelaying, Started: at},
		{ID: "aaaaaaaa-2", Service: "stt", Backend: "gpu-2", Client: "[::1]:5000", State: api.StateClosing, Started: at.Add(time.Second), BytesFromClient: 9},
		{ID: "aaaaaaaa-3", Service: "tts", Client: "10.0.0.1:5001", State: api.StateWaiting, Started: at.Add(2 * time.Second), Place: 1},
	}
	ended := []api.Session{{ID: "aaaaaaaa-0", State: api.StateEnded, By: "backend", Code: 1011, Reason: "backend connection lost", Started: at}}
	return Sessions{
		All:   func() []api.Session { return append([]api.Session(nil), all...) },
		Ended: func() []api.Session { return ended },
		Detail: func(id string) (d api.SessionDetail, ok bool) {
			for _, s := range append(ended, all...) {
				if s.ID == id {
					return api.SessionDetail{Session: s}, true
				}
			}
			return d, false
		},
		Kill: func(id, why string) bool {
			if id != "aaaaaaaa-1" && id != "aaaaaaaa-3" {
				return false
			}
			killed[id] = why
			return true
		},
	}
}

// Operators find sessions by what they know of them, and end them. Whatever is wrong with a request is named.
func TestSessions(t *testing.T) {
	killed := make(map[string]string)
	audit := NewAudit(slog.New(slog.DiscardHandler))
	source := Source{Sessions: someSessions(killed), Audit: audit}
	server := httptest.NewServer(handle(source.sessionRoutes(), Access{Audit: audit, Trusted: func(*http.Request) string { return api.RoleOperator }}))
	defer server.Close()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	for query, want := range map[string]string{
		"":                                "1 2 3, 3 of 3",
		"?service=stt":                    "1 2, 2 of 3",
		"?backend=gpu-2":                  "2, 1 of 3",
		"?client=10.0.0.1":                "1 3, 2 of 3",
		"?client=10.0.0.1:5001":           "3, 1 of 3",
		"?client=::1":                     "2, 1 of 3",
		"?state=waiting":                  "3, 1 of 3",
		"?state=ended":                    "0, 1 of 3",
		"?sort=bytes&limit=1":             "2, 3 of 3",
		"?sort=state&service=tts&limit=0": "3, 1 of 3",
		"?tenant=acme":                    ", 0 of 3",
	} {
		status, text := ask(http.MethodGet, api.SessionsPath+query, "")
		var list api.SessionList
		if err := json.Unmarshal([]byte(text), &list); status != http.StatusOK || err != nil {
			t.Errorf("%s: %d %s, %v", query, status, text, err)
		}
		var numbers []string
		for _, s := range list.Sessions {
			numbers = append(numbers, strings.TrimPrefix(s.ID, "aaaaaaaa-"))
		}
		if got := fmt.Sprintf("%s, %d of %d", strings.Join(numbers, " "), list.Matched, list.Total); got != want {
			t.Errorf("%s: %s; want %s", query, got, want)
		}
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/aaaaaaaa-2", "", 200, `"closing"`},
		{"GET", "/aaaaaaaa-0", "", 200, `"backend connection lost"`},
		{"GET", "/aaaaaaaa-7", "", 404, `"unknown session \"aaaaaaaa-7\": it never was, or ended too long ago to be remembered"`},
		{"GET", "/<script>", "", 404, `never was`},
		{"GET", "/aaaaaaaa-2?x=1", "", 400, `unknown parameter`},
		{"GET", "?state=asleep", "", 400, `use one of waiting, relaying`},
		{"GET", "?sort=name", "", 400, `use one of started, age`},
		{"GET", "?limit=-1", "", 400, `use a whole number from 0`},
		{"GET", "?limt=1", "", 400, `unknown parameter`},
		{"PUT", "/aaaaaaaa-2", "", 405, `use one of DELETE, GET, HEAD`},
		{"DELETE", "/aaaaaaaa-1", `{"who": "alice", "why": "new model"}`, 200, `session aaaaaaaa-1 is ended`},
		{"DELETE", "/aaaaaaaa-3", ``, 200, `session aaaaaaaa-3 is ended`},
		{"DELETE", "/aaaaaaaa-2", ``, 409, `session aaaaaaaa-2 is ending: its state is closing`},
		{"DELETE", "/aaaaaaaa-0", ``, 409, `session aaaaaaaa-0 has ended: backend, code 1011 (backend connection lost)`},
		{"DELETE", "/aaaaaaaa-9", ``, 404, `unknown session`},
		{"DELETE", "/aaaaaaaa-1", `{"wy": "x"}`, 400, `unknown field`},
	} {
		if status, text := ask(c.method, api.SessionsPath+c.path, c.body); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %s: %d %s; want %d, %s", c.method, c.path, c.body, status, text, c.status, c.text)
		}
	}
	if len(killed) != 2 || killed["aaaaaaaa-1"] != "new model" {
		t.Errorf("ended: %v", killed)
	}
	if actions, _ := audit.Since(0); len(actions) != 5 || actions[0].Action != "kill" || actions[0].Who != "alice" || actions[1].Target != "aaaaaaaa-3" ||
		actions[2].Target != "aaaaaaaa-2" || actions[1].Result != api.ResultDone || actions[2].Result != api.ResultFailed {
		t.Errorf("audit: %+v", actions)
	}
}
