package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The list for scaling in keeps the proxy's order, and leaves out what was not chosen.
func TestScaleIn(t *testing.T) {
	alone(t)
	database := t.TempDir() + "/c.db"
	for _, args := range [][]string{
		{"service", "add", "stt", "--profile", "echo"},
		{"service", "add", "mt", "--profile", "echo", "--path", "/mt"},
		{"backend", "add", "a", "ws://10.0.0.1/", "--service", "stt", "--connections", "100"},
		{"backend", "add", "b", "ws://10.0.0.2/", "--service", "mt", "--connections", "100"},
		{"backend", "add", "gpu", "ws://gpu.test/", "--service", "stt", "--discover", "dns", "--connections", "100"},
	} {
		if status, out, messages := command(append(args, "--database", database)...); status != 0 {
			t.Fatalf("%v: %s%s", args, out, messages)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.BackendsPath || r.URL.Query().Get("sort") != api.BackendsScaleIn {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode([]api.BackendInUse{
			{Name: "gpu@10.0.0.3:80", DiscoveredFrom: "gpu", Service: "stt", State: "enabled"},
			{Name: "b", Service: "mt", State: "enabled", Usable: true},
			{Name: "a", Service: "stt", State: "enabled", Usable: true, Sessions: 2, SessionsElsewhere: 3, RemainingSeconds: 90, LongestSeconds: 40, Moves: true},
		})
	}))
	t.Cleanup(server.Close)
	list := func(args ...string) string {
		t.Helper()
		status, out, messages := command(append([]string{"backend", "ls", "--sort", "scale-in", "--service", "stt", "--database", database, "--admin", server.URL}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d, %s%s", args, status, out, messages)
		}
		return out
	}
	want := strings.Join([]string{
		"NAME             SERVICE  STATE           SESSIONS  ELSEWHERE  LEFT   EMPTY IN  MOVES",
		"gpu@10.0.0.3:80  stt      out of service  0         0          0s     0s        no",
		"a                stt      enabled         2         3          1m30s  40s       yes",
	}, "\n") + "\n"
	if out := list(); out != want {
		t.Errorf("the list is\n%s\nwant\n%s", out, want)
	}
	if out := list("--output", "name"); out != "gpu@10.0.0.3:80\na\n" {
		t.Errorf("the names are %q", out)
	}
	if out := list("--output", "json"); !strings.Contains(out, `"sessions_elsewhere": 3`) {
		t.Errorf("for programs it is %s", out)
	}
	for _, c := range []struct{ order, want string }{
		{"scale-in", "--sort scale-in needs a running proxy"},
		{"scalein", `--sort: unknown order "scalein": did you mean "scale-in"?`},
	} {
		if status, _, messages := command("backend", "ls", "--sort", c.order, "--database", database); status != 2 || !strings.Contains(messages, c.want) {
			t.Errorf("--sort %s: status %d, %s", c.order, status, messages)
		}
	}
}
