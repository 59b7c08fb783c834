package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The list of actions shows who did what, from where, and hides nothing behind its limit silently.
func TestAuditRows(t *testing.T) {
	at := time.Date(2026, 11, 27, 3, 0, 0, 5, time.UTC)
	actions := []api.Action{
		{Time: at, Action: "login", Result: api.ResultRefused, From: "10.0.0.9:5", Detail: "wrong token", Why: "\x1b[2J"},
		{Time: at, Action: "configure", Target: "set backend gpu-1", Result: api.ResultDone, Who: "alice@desk", Caller: "user alice (uid 1000)", From: "admin socket", Detail: "version 8", Why: "new card"},
	}
	print := func(limit int, form string) string {
		var out strings.Builder
		if err := auditRows(actions, limit).print(&out, &output{form: form}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	same(t, "the table", print(0, "table"), `
TIME                  ACTION     TARGET             RESULT   CALLER                 WHO         FROM          DETAIL
2026-11-27T03:00:00Z  login      -                  refused  -                      -           10.0.0.9:5    wrong token
2026-11-27T03:00:00Z  configure  set backend gpu-1  done     user alice (uid 1000)  alice@desk  admin socket  version 8`)
	if out := print(1, asWide); strings.Contains(out, "alice") || strings.Contains(out, "\x1b") || !strings.HasSuffix(out, "and 1 more (--limit 0)\n") {
		t.Errorf("one, wide:\n%s", out)
	}
	if out := print(0, asJSON); !strings.Contains(out, `"why": "new card"`) {
		t.Errorf("JSON:\n%s", out)
	}
}
