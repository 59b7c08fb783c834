package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The command says how an upgrade has ended, also if the running proxy ends in the middle of it.
func TestUpgradeEnds(t *testing.T) {
	alone(t)
	for _, c := range []struct {
		name, want string
		last       api.UpgradeStep // none: the proxy is killed
		status     int
	}{
		{"done", "serves; the old process drains 1 session (--admin unix:/a)\n", api.UpgradeStep{Done: &api.Upgraded{PID: 7, Version: "v2", Sessions: 1, Draining: []string{"unix:/a"}}}, 0},
		{"idle", "Upgraded: process 7, version v2, serves\n", api.UpgradeStep{Done: &api.Upgraded{PID: 7, Version: "v2"}}, 0},
		{"fails", "Error: not upgraded, and the running proxy keeps serving: no\n", api.UpgradeStep{Error: "no"}, 1},
		{"shuts down", "Error: not upgraded: the running proxy shuts down\n", api.UpgradeStep{Error: api.ShutsDown}, 1},
		{"killed", "Error: the running proxy ended before it said what came of the upgrade", api.UpgradeStep{}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != api.UpgradePath {
					http.NotFound(w, r)
					return
				}
				encoder := json.NewEncoder(w)
				_ = encoder.Encode(api.UpgradeStep{Text: "a step"})
				_ = http.NewResponseController(w).Flush()
				if c.last.Done == nil && c.last.Error == "" {
					panic(http.ErrAbortHandler)
				}
				_ = encoder.Encode(c.last)
			}))
			defer server.Close()
			status, out, messages := command("upgrade", "--admin", server.URL)
			if status != c.status || !strings.HasPrefix(out, "a step\n") || !strings.Contains(out+messages, c.want) {
				t.Errorf("status %d, %s%s; want %d, %s", status, out, messages, c.status, c.want)
			}
		})
	}
}
