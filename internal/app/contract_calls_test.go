package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// notAsked are the statuses that no test here causes: 408 takes half a minute (package admin has it in a bubble), 101 needs the admin socket
// (package cli takes over there), and the others need something that fails.
var notAsked = []string{"101", "307", "408", "500", "503"}

// A running proxy answers as the description of its API says, also to bad requests; and whatever is described can be had.
func TestContract(t *testing.T) {
	t.Parallel()
	c := begin(t)
	c.empty()
	c.configure()
	c.configuration()
	c.sessions()
	c.actions()
	c.upgrades()
	c.streams()
	c.fleet()
	c.others()
	c.methods()
	c.bodies()
	c.strangers()
	c.operations(func(method, path string, operation map[string]any) {
		for status := range operation["responses"].(map[string]any) {
			if !c.seen[method+" "+path+" "+status] && !slices.Contains(notAsked, status) {
				t.Errorf("%s %s never answered with %s", method, path, status)
			}
		}
	})
}

// empty asks a proxy that has nothing yet: lists are empty, and not null.
func (c *contract) empty() {
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/v1/stats", "/api/v1/sessions", "/api/v1/problems", "/api/v1/history", "/api/v1/backends", "/api/v1/audit", "/api/v1/config", "/api/v1/config/history"} {
		c.ask(request{method: "GET", path: path, status: 200})
	}
	for _, path := range []string{"/api/v1/services/{name}/pause", "/api/v1/services/{name}/resume", "/api/v1/backends/{name}/recycle", "/api/v1/backends/{name}/move"} {
		c.ask(request{method: "POST", path: path, names: []string{"stt"}, status: 404, says: `\"stt\": none exists`})
	}
	c.ask(request{method: "DELETE", path: "/api/v1/sessions", query: "backend=gpu-1", status: 404, says: "none exists"})
}

func (c *contract) configuration() {
	const changes = "/api/v1/config/changes"
	c.ask(request{method: "GET", path: "/api/v1/config", query: "stale=allowed", status: 200, says: `"X-Site"`})
	c.ask(request{method: "GET", path: "/api/v1/config", query: "stale=yes", status: 400, says: "use allowed"})
	c.ask(request{method: "GET", path: "/api/v1/config/version", status: 200, says: `"1"`})
	c.ask(request{method: "GET", path: "/api/v1/config/version", query: "unlike=1&wait=2h", status: 400, says: "use at most 1m0s"})
	c.ask(request{method: "GET", path: "/api/v1/config/history", status: 200, says: "(hidden)"})
	c.ask(request{method: "GET", path: "/api/v1/config/history", query: "limit=x", status: 400, says: "limit: invalid number"})
	c.ask(request{method: "GET", path: "/api/v1/config/versions/{version}", names: []string{"1"}, status: 200})
	c.ask(request{method: "GET", path: "/api/v1/config/versions/{version}", names: []string{"9"}, status: 404, says: "no-version"})
	c.ask(request{method: "POST", path: changes, body: `{"who":"a"}`, status: 400, says: "the change is empty"})
	c.ask(request{method: "POST", path: changes, body: `{"who":"a","mutation":[]}`, status: 400, says: "unknown field"})
	mutation := `"mutations":[{"verb":"set","kind":"service","name":"stt","values":{"queue":%q}}]}`
	c.ask(request{method: "POST", path: changes, body: `{"who":"a","expect":"0",` + fmt.Sprintf(mutation, "3"), status: 409, says: "conflict"})
	c.ask(request{method: "POST", path: changes, body: `{"who":"a",` + fmt.Sprintf(mutation, "-3"), status: 422, says: "problems"})
	c.ask(request{method: "POST", path: changes, body: `{"who":"a","dry_run":true,` + fmt.Sprintf(mutation, "3"), status: 200, says: "dry_run"})
	c.ask(request{method: "POST", path: changes, query: "return=configuration", body: `{"who":"a",` + fmt.Sprintf(mutation, "3"), status: 200, says: "configuration"})
}

// sessions has one session on each backend and a client that waits, and ends all of them.
func (c *contract) sessions() {
	const list, one = "/api/v1/sessions", "/api/v1/sessions/{id}"
	first, id := c.client()
	exchange(c.t, first)
	second, _ := c.client()
	waiting := make(chan int, 1)
	go func() {
		_, answer, _ := websocket.DefaultDialer.Dial("ws://"+c.proxy.Addresses()[0].String()+"/stt", nil)
		if answer == nil {
			answer = new(http.Response)
		}
		waiting <- answer.StatusCode
	}()
	queued := c.session(api.StateWaiting)
	sessions := decode[api.SessionList](c, request{path: list, query: "sort=age&limit=2"})
	if sessions.Total != 3 || sessions.Matched != 3 || len(sessions.Sessions) != 2 {
		c.t.Errorf("sessions: %+v", sessions)
	}
	if detail := decode[api.SessionDetail](c, request{path: one, names: []string{id}}); detail.Server == nil || detail.FramesFromClient != 1 {
		c.t.Errorf("session: %+v", detail)
	}
	if detail := decode[api.SessionDetail](c, request{path: one, names: []string{queued.ID}}); detail.Queue == nil || detail.Queue.Place != 1 {
		c.t.Errorf("waiting: %+v", detail)
	}
	c.ask(request{method: "GET", path: list, query: "state=gone", status: 400, says: "unknown state"})
	c.ask(request{method: "GET", path: list, query: "limit=-1", status: 400, says: "limit: invalid number"})
	c.ask(request{method: "GET", path: list, query: "servce=stt", status: 400, says: "unknown parameter"})
	c.ask(request{method: "GET", path: one, names: []string{id}, query: "x=1", status: 400, says: "takes none"})
	mistyped := id[:len(id)-1] + "77"
	for _, method := range []string{"GET", "DELETE"} {
		c.ask(request{method: method, path: one, names: []string{mistyped}, status: 404, says: "it never was, or ended too long ago"})
		c.ask(request{method: method, path: one, names: []string{"x"}, status: 404, says: "unknown session"})
	}
	c.moves(id, queued.ID)
	c.ask(request{method: "DELETE", path: one, names: []string{queued.ID}, body: `{"who":"alice","why":"test"}`, status: 200})
	if status := wstest.Receive(c.t, waiting, "the waiting client is answered"); status != http.StatusServiceUnavailable {
		c.t.Errorf("the waiting client got %d", status)
	}
	c.ask(request{method: "DELETE", path: one, names: []string{id}, query: "force=1", status: 400, says: "takes none"})
	c.ask(request{method: "DELETE", path: one, names: []string{id}, status: 200, says: "is ended"})
	killed(c.t, first)
	wstest.Eventually(c.t, "the session is over", func() bool { _, ok := c.proxy.sessionDetail(id); return ok && c.proxy.sessions.Active() == 1 })
	c.ask(request{method: "DELETE", path: one, names: []string{id}, status: 409, says: `"state"`})
	c.ask(request{method: "GET", path: one, names: []string{id}, status: 200, says: `"ended"`})
	ended := decode[api.SessionList](c, request{path: list, query: "state=ended"})
	if ended.Matched == 0 {
		c.t.Error("no session has ended")
	}

	backend := c.session(api.StateRelaying).Backend
	for query, says := range map[string]string{
		"": "backend is missing", "backend=": "backend is missing", "backend=gpu-1&within=x": `invalid duration \"x\"`, "backend=gpu-1&within=-1s": "use 0 (at once) to 1h",
		"backend=gpu-1&within=61m": "use 0 (at once) to 1h", "backend=gpu-1&service=stt": `unknown parameter \"service\"`,
	} {
		c.ask(request{method: "DELETE", path: list, query: query, status: 400, says: says})
	}
	c.ask(request{method: "DELETE", path: list, query: "backend=gpu-9", status: 404, says: `"nearest": "gpu-`})
	c.ask(request{method: "DELETE", path: list, query: "backend=" + backend + "&within=10ms", body: `{}`, status: 200, says: "1 session of backend"})
	killed(c.t, second)
	c.idle()
	c.ask(request{method: "DELETE", path: list, query: "backend=" + backend, status: 200, says: "has no sessions"})
}

// moves asks for moves of a session that cannot be moved, since its service has no failover.
func (c *contract) moves(id, queued string) {
	const one, all = "/api/v1/sessions/{id}/move", "/api/v1/backends/{name}/move"
	names, gpu1 := []string{id}, []string{"gpu-1"}
	c.ask(request{method: "GET", path: one, names: names, status: 404, says: "there was no order"})
	c.ask(request{method: "GET", path: all, names: gpu1, status: 404, says: "there was no order"})
	c.ask(request{method: "GET", path: one, names: names, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "GET", path: all, names: gpu1, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "POST", path: one, names: names, query: "timeout=2h", status: 400, says: "use 0 (by replay at once) to 1h"})
	c.ask(request{method: "POST", path: one, names: []string{"x"}, status: 404, says: "unknown session"})
	c.ask(request{method: "POST", path: one, names: names, query: "to=gpu-9", status: 404, says: `"nearest": "gpu-`})
	c.ask(request{method: "POST", path: one, names: []string{queued}, status: 409, says: "it waits in the queue"})
	c.ask(request{method: "POST", path: one, names: names, query: "timeout=0s", body: `{"who":"alice","why":"test"}`, status: 200, says: id})
	wstest.Eventually(c.t, "the order about the session is done", func() bool {
		m := decode[api.Moving](c, request{path: one, names: names})
		return m.Done && m.Sessions[0].State == api.MoveRefused && m.Sessions[0].Why == "its service has failover: off"
	})
	c.ask(request{method: "POST", path: all, names: []string{"gpu-9"}, status: 404, says: `"nearest": "gpu-`})
	c.ask(request{method: "POST", path: all, names: gpu1, query: "within=1s", status: 400, says: "unknown parameter"})
	c.ask(request{method: "POST", path: all, names: gpu1, query: "timeout=1s", status: 200, says: `"backend": "gpu-1"`})
	wstest.Eventually(c.t, "the order about the backend is done", func() bool {
		m := decode[api.Moving](c, request{path: all, names: gpu1})
		return m.Done && len(m.Sessions) == 1 && m.Count(api.MoveRefused) == 1
	})
}

// exchange sends a message, which must come back.
func exchange(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.ReadMessage(); err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// killed expects that an operator has ended the client's session, and closes the connection.
func killed(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
		t.Errorf("the client got %v", err)
	}
	_ = conn.Close()
}

// idle waits until no session is left.
func (c *contract) idle() {
	c.t.Helper()
	wstest.Eventually(c.t, "all sessions are over", func() bool { return len(c.proxy.allSessions()) == 0 && c.proxy.sessions.Active() == 0 })
}

func (c *contract) actions() {
	const pause, resume, recycle = "/api/v1/services/{name}/pause", "/api/v1/services/{name}/resume", "/api/v1/backends/{name}/recycle"
	stt, gpu1 := []string{"stt"}, []string{"gpu-1"}
	c.ask(request{method: "POST", path: pause, names: stt, body: `{"who":"alice","why":"new model"}`, status: 200, says: "service stt is paused: 0 clients wait"})
	c.ask(request{method: "POST", path: pause, names: stt, status: 409, says: "service stt is paused already"})
	c.ask(request{method: "GET", path: "/readyz", query: "service=stt", status: 200, says: "ready: service stt"})
	c.ask(request{method: "GET", path: "/readyz", query: "service=sst", status: 404, says: `no service "sst"`})
	c.ask(request{method: "GET", path: "/api/v1/stats", status: 200, says: `"paused": true`})
	c.ask(request{method: "POST", path: resume, names: stt, status: 200, says: "service stt is resumed"})
	c.ask(request{method: "POST", path: resume, names: stt, status: 409, says: "service stt is not paused"})
	c.ask(request{method: "POST", path: recycle, names: gpu1, status: 200, says: "its connection is replaced"})
	for _, path := range []string{pause, resume} {
		c.ask(request{method: "POST", path: path, names: []string{"sst"}, status: 404, says: `"nearest": "stt"`})
	}
	c.ask(request{method: "POST", path: recycle, names: []string{"gpu-11"}, status: 404, says: `did you mean \"gpu-1\"?`})
	for _, path := range []string{pause, resume, recycle} {
		for body, says := range map[string]string{
			`{"whom":"alice"}`: `unknown field \"whom\": use one of who, why`, `[]`: "invalid body", `{"why":"\u0007"}`: "use printable characters only",
		} {
			c.ask(request{method: "POST", path: path, names: stt, body: body, status: 400, says: says})
		}
	}
	running, _ := c.client()
	exchange(c.t, running)
	backend := c.session(api.StateRelaying).Backend
	c.ask(request{
		method: "POST", path: "/api/v1/config/changes", body: `{"who":"a","mutations":[{"verb":"remove","kind":"backend","name":"` + backend + `"}]}`, status: 200,
	})
	wstest.Eventually(c.t, "the backend is leaving", func() bool { return len(c.proxy.Stats().Leaving) == 1 })
	c.ask(request{method: "GET", path: "/api/v1/stats", status: 200, says: `"leaving"`})
	c.ask(request{method: "GET", path: "/api/v1/usage", query: "by=service", status: 200, says: `"service": "stt"`})
	c.ask(request{method: "GET", path: "/api/v1/usage", query: "by=colour", status: 400, says: "use one or more of tenant, key, service"})
	c.ask(request{method: "POST", path: recycle, names: []string{backend}, status: 409, says: "was removed"})
	c.ask(request{method: "DELETE", path: "/api/v1/sessions", query: "backend=" + backend, status: 200, says: "1 session of"})
	killed(c.t, running)
	c.idle()

	const level = "/api/v1/log/level"
	c.ask(request{method: "GET", path: level, status: 200, says: "info"})
	c.ask(request{method: "GET", path: level, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "PUT", path: level, body: `{"level":"debug","who":"alice"}`, status: 200, says: "debug"})
	c.ask(request{method: "PUT", path: level, body: `{"level":"loud"}`, status: 400, says: `unknown log level \"loud\"`})

	c.ask(request{method: "GET", path: api.SettingsPath, status: 200, says: "w.yaml:1:8"})
	c.ask(request{method: "GET", path: api.SettingsPath, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "POST", path: api.ReloadPath, status: 409, says: "no setting was changed: the test has broken them"})
	c.ask(request{method: "POST", path: api.ReloadPath, body: `{"who":"alice"}`, status: 200, says: `"is": "3"`})
	c.ask(request{method: "POST", path: api.ReloadPath, query: "x=1", status: 400, says: "takes none"})

	actions := decode[[]api.Action](c, request{path: "/api/v1/audit"})
	var names []string
	for _, a := range slices.Backward(actions) {
		if a.Result == api.ResultDone && a.Action != "configure" {
			names = append(names, a.Action+" "+a.Who)
		}
	}
	if got := strings.Join(names, ", "); !strings.Contains(got, "kill alice, kill , kill-all , kill-all , pause alice, resume , recycle , kill-all , log-level alice, reload alice") {
		c.t.Errorf("audit log: %s", got)
	}
	c.ask(request{method: "GET", path: "/api/v1/audit", query: "limit=1", status: 400, says: "takes none"})
}

// upgrades asks for a successor that ends before it has taken over, and for those that cannot be.
func (c *contract) upgrades() {
	const upgrade, takeOver = "/api/v1/upgrade", "/api/v1/take-over"
	c.ask(request{method: "POST", path: upgrade, body: `{"binary":"/nonexistent"}`, status: 400, says: "the program cannot be started"})
	c.ask(request{method: "POST", path: upgrade, body: `{"timeout_seconds":-1}`, status: 400, says: "use 0 (the default, a minute) to 3600"})
	c.ask(request{method: "POST", path: upgrade, query: "x=1", status: 400, says: "takes none"})
	body := c.ask(request{method: "POST", path: upgrade, body: `{"who":"alice"}`, status: 200, says: "the other process ended before it asked"})
	for line := range strings.Lines(string(body)) {
		c.valid("upgrade", []byte(line), "components", "schemas", "UpgradeStep")
	}
	_, finish, err := c.proxy.succession.begin(c.t.Context(), time.Minute)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ask(request{method: "POST", path: upgrade, status: 409, says: "another take-over is under way"})
	finish(nil)
	c.ask(request{method: "POST", path: takeOver, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "POST", path: takeOver, status: 403, tcp: true, says: "the admin API is read-only at this address"})
	const forward = "/api/v1/forward"
	c.ask(request{method: "POST", path: forward, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "POST", path: forward, status: 400, says: "with the header Upgrade: wsbouncer-forward"})
	c.ask(request{
		method: "POST", path: forward, header: []string{"Upgrade", "wsbouncer-forward", "Content-Type", "application/json"}, body: `{"address":"phone"}`, status: 400,
		says: "use that of the client, and its port",
	})
	c.ask(request{method: "POST", path: forward, status: 403, tcp: true, says: "the admin API is read-only at this address"})
	c.ask(request{method: "POST", path: upgrade, status: 403, tcp: true, body: `{"binary":"/bin/true"}`, says: "the admin API is read-only at this address"})
}

// streams reads the beginning of the event stream and of a tap.
func (c *contract) streams() {
	ctx, cancel := context.WithTimeout(c.t.Context(), wstest.Timeout)
	defer cancel() // ends the streams
	c.ask(request{method: "GET", path: "/api/v1/events", query: "interval=0", status: 400, says: "use whole seconds from 1 to 60"})
	schemas := map[string][]string{"stats": {"Stats"}, "sessions": {"SessionList"}, "history": {"History"}, "ended": {"Session"}, "audit": {"Action"}}
	r := request{method: "GET", path: "/api/v1/events", query: "interval=1", status: 200}
	answer := c.send(ctx, r)
	c.described("events", r, answer.Header.Get("Content-Type"), nil)
	event := ""
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for len(schemas) > 0 {
		if !lines.Scan() {
			c.t.Fatalf("the stream ended before the events %v: %v", schemas, lines.Err())
		}
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || schemas[event] == nil {
			continue
		}
		all := []json.RawMessage{json.RawMessage(data)}
		if event == "ended" || event == "audit" {
			if err := json.Unmarshal([]byte(data), &all); err != nil {
				c.t.Fatal(err)
			}
		}
		for _, value := range all {
			c.valid("event "+event, value, "components", "schemas", schemas[event][0])
		}
		delete(schemas, event)
	}

	const tap = "/api/v1/tap"
	c.ask(request{method: "GET", path: tap, status: 400, says: "nothing is chosen"})
	c.ask(request{method: "GET", path: tap, query: "service=sst", status: 404, says: `"nearest": "stt"`})
	conn, id := c.client()
	r = request{method: "GET", path: tap, query: "session=" + id + "&who=alice", status: 200}
	answer = c.send(ctx, r)
	c.described("tap", r, answer.Header.Get("Content-Type"), nil)
	exchange(c.t, conn)
	c.ask(request{method: "DELETE", path: "/api/v1/sessions/{id}", names: []string{id}, status: 200})
	killed(c.t, conn)
	events := make(map[string]bool)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if lines.Text() == "" {
			continue
		}
		c.valid("tap", lines.Bytes(), "components", "schemas", "TapEvent")
		var e api.TapEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			c.t.Fatal(err)
		}
		events[e.Event] = true
	}
	if !events["frame"] || !events["end"] {
		c.t.Errorf("the tap showed %v", events)
	}
	c.idle()
}

func (c *contract) others() {
	c.ask(request{method: "GET", path: "/api/v1/problems", status: 200, says: "past"})
	c.ask(request{method: "GET", path: "/api/v1/problems", query: "x=1", status: 400})
	c.ask(request{method: "GET", path: "/api/v1/history", status: 200, says: "points"})
	c.ask(request{method: "GET", path: "/api/v1/history", query: "x=1", status: 400})
	c.ask(request{method: "GET", path: "/api/v1/backends", query: "service=stt&sort=scale-in", status: 200, says: `"remaining_seconds"`})
	c.ask(request{method: "GET", path: "/api/v1/backends", query: "sort=scalein", status: 400, says: `did you mean \"scale-in\"?`})
	c.ask(request{method: "GET", path: "/api/v1/access", status: 200, tcp: true, says: `"this machine"`})
	c.ask(request{method: "GET", path: "/api/v1/access", status: 200, tcp: true, says: `"reader"`})
	c.ask(request{method: "GET", path: "/api/v1/access", query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "GET", path: "/api/v1/openapi.json", status: 200, says: `"openapi": "3.1.0"`})
	c.ask(request{method: "GET", path: "/api/v1/openapi.json", query: "x=1", status: 400, says: "takes none"})
}

// methods finds that a path has the methods that are described, and no others.
func (c *contract) methods() {
	for path, methods := range c.paths {
		var want []string
		for method := range methods.(map[string]any) {
			if want = append(want, strings.ToUpper(method)); method == "get" {
				want = append(want, http.MethodHead)
			}
		}
		slices.Sort(want)
		r := request{method: "PATCH", path: path, status: http.StatusMethodNotAllowed, says: `unknown method \"PATCH\"`}
		c.ask(r)
		if got := c.send(c.t.Context(), r).Header.Get("Allow"); got != strings.Join(want, ", ") {
			c.t.Errorf("%s allows %s; want %v", path, got, want)
		}
	}
}

// bodies sends bodies of the wrong type, and bodies that are too large.
func (c *contract) bodies() {
	c.operations(func(method, path string, operation map[string]any) {
		if operation["requestBody"] == nil {
			return
		}
		names, query, large := []string{"gpu-2"}, "", 65<<10
		switch {
		case strings.Contains(path, "services"):
			names = []string{"stt"}
		case method == "delete":
			query = "backend=gpu-2"
		case strings.HasPrefix(path, api.ConfigPath):
			large = 9 << 20
		}
		if strings.Contains(path, "{id}") {
			query = ""
		}
		r := request{method: strings.ToUpper(method), path: path, names: names[:strings.Count(path, "{")], query: query}
		r.body, r.header, r.status, r.says = "who=alice", []string{"Content-Type", "text/plain", api.ChangeHeader, "1"}, 415, "use application/json"
		c.ask(r)
		r.header = []string{"Content-Type", "application/x-www-form-urlencoded"}
		c.ask(r)
		r.body, r.header, r.status, r.says = `{"why":"`+strings.Repeat("x", large)+`"}`, nil, 413, "bytes"
		c.ask(r)
	})
}

// strangers asks as the page of another site, and without the token.
func (c *contract) strangers() {
	every := func(status int, says string, header ...string) {
		c.operations(func(method, path string, operation map[string]any) {
			r := request{method: strings.ToUpper(method), path: path, status: status, says: says, header: append([]string{api.ChangeHeader, "1"}, header...)}
			if _, open := operation["security"]; open {
				r.status, r.says = http.StatusOK, ""
			}
			c.ask(r)
		})
	}
	every(http.StatusForbidden, "pages of other origins", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
	every(http.StatusForbidden, "pages of other origins", "Origin", "null")
	every(http.StatusForbidden, "X-Forwarded-For", "X-Forwarded-For", "192.0.2.1")
	c.operations(func(method, path string, _ map[string]any) { // a form of a page in a browser that says nothing of the page
		if method != "get" || path == "/api/v1/tap" {
			c.ask(request{method: strings.ToUpper(method), path: path, status: http.StatusForbidden, says: api.ChangeHeader, header: []string{}})
		}
	})
	now := c.proxy.live.Load()
	c.proxy.Reconfigure(now.Settings, settings.Tokens{Token: "s3cret", ReaderToken: "r3ader"})
	every(http.StatusUnauthorized, "needs a token")
	c.ask(request{
		method: "POST", path: "/api/v1/upgrade", status: http.StatusForbidden, tcp: true, body: `{"binary":"/bin/true"}`, says: "who may change the proxy over the network may not run programs",
		header: []string{"Authorization", "Bearer s3cret", "Content-Type", "application/json"},
	})
	c.ask(request{method: "GET", path: "/api/v1/audit", status: 200, header: []string{"Authorization", "Bearer s3cret"}})
	c.ask(request{method: "GET", path: "/api/v1/audit", status: 200, header: []string{"Authorization", "Bearer r3ader"}})
	c.operations(func(method, path string, _ map[string]any) {
		if method != "get" || path == "/api/v1/tap" {
			c.ask(request{
				method: strings.ToUpper(method), path: path, status: http.StatusForbidden, says: "the reader token may only read",
				header: []string{"Authorization", "Bearer r3ader", api.ChangeHeader, "1"},
			})
		}
	})
	for _, status := range slices.Concat(slices.Repeat([]int{http.StatusUnauthorized}, 10), []int{http.StatusTooManyRequests}) {
		c.ask(request{method: "GET", path: "/api/v1/access", status: status, tcp: true, header: []string{"Authorization", "Bearer s3cre"}})
	}
}
