package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// putLevel sends a JSON body to the path of the log's level.
func (r *rig) putLevel(t *testing.T, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPut, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.server.Client().Do(request)
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

func TestLogLevel(t *testing.T) {
	rig := start(t)
	for _, c := range []struct {
		body   string
		status int
		says   string
		level  string // afterwards
	}{
		{`{"level":"debug","who":"alice","why":"clients complain"}`, 200, `"level": "debug"`, "debug"},
		{`{"level":"DEBUG"}`, 400, `unknown log level \"DEBUG\": did you mean \"debug\"? Use one of debug, info, warn, error`, "debug"},
		{`{"level":""}`, 400, "level: the value is missing: use one of debug, info, warn, error", "debug"},
		{``, 400, "the value is missing", "debug"},
		{`{"levle":"info"}`, 400, `unknown field \"levle\": use one of level, who, why`, "debug"},
		{`{"level":"info","why":"\u001b"}`, 400, "why: invalid text", "debug"},
		{`{"level":7}`, 400, "cannot unmarshal number", "debug"},
		{`{"level":"` + strings.Repeat("x", 70_000) + `"}`, 413, "more than 65536 bytes", "debug"},
		{`{"level":"error"}`, 200, `"level": "error"`, "error"},
	} {
		status, answer := rig.putLevel(t, api.LogLevelPath, c.body)
		if status != c.status || !strings.Contains(answer, c.says) || rig.level != c.level {
			t.Errorf("%.80s: %d, %s, and then it is %s; want %d, %s, %s", c.body, status, answer, rig.level, c.status, c.says, c.level)
		}
	}
	if status, answer := rig.putLevel(t, api.LogLevelPath+"?level=info", `{"level":"info"}`); status != 400 || !strings.Contains(answer, `unknown parameter \"level\"`) {
		t.Errorf("%d, %s", status, answer)
	}
	if response, body := rig.ask(t, http.MethodGet, api.LogLevelPath); response.StatusCode != 200 || body != "{\n  \"level\": \"error\"\n}\n" {
		t.Errorf("%s, %s", response.Status, body)
	}
	var actions []api.Action
	if _, body := rig.ask(t, http.MethodGet, api.AuditPath); json.Unmarshal([]byte(body), &actions) != nil || len(actions) != 2 {
		t.Fatal(body)
	}
	if a := actions[1]; a.Action != "log-level" || a.Target != "debug" || a.Who != "alice" || a.Why != "clients complain" || a.Detail != "it was info" {
		t.Errorf("%+v", a)
	}
	rig.fixedLevel = admin.WrongState("it cannot change")
	if status, answer := rig.putLevel(t, api.LogLevelPath, `{"level":"info"}`); status != 409 || !strings.Contains(answer, "it cannot change") {
		t.Errorf("%d, %s", status, answer)
	}
	if _, body := rig.ask(t, http.MethodGet, api.AuditPath); json.Unmarshal([]byte(body), &actions) != nil || len(actions) != 3 || actions[0].Result != api.ResultFailed {
		t.Errorf("what could not be done: %s", body)
	}
}
