package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// contract asks a running proxy, and holds its answers against the description of the API (OpenAPI 3.1, whose schemas are JSON Schema
// 2020-12). An answer must have no field that is not described.
type contract struct {
	t        *testing.T
	proxy    *Proxy
	ledger   *ledger // of the proxy
	admin    *http.Client
	base     string // URL of the admin API
	paths    map[string]any
	compiler *jsonschema.Compiler
	seen     map[string]bool // method, path as described, and status
}

const descriptionFile = "openapi.json"

// processSettings are settings of the process that are broken when they are read again for the first time.
func processSettings() admin.Settings {
	var reloads atomic.Int32
	return admin.Settings{
		List: func() api.SettingList {
			return api.SettingList{File: "w.yaml", Settings: []api.Setting{{Name: "loops", Value: "2", Default: "0", From: api.FromFile, Source: "w.yaml:1:8"}}}
		},
		Reload: func(context.Context) (api.Reloaded, error) {
			if reloads.Add(1) == 1 {
				return api.Reloaded{}, errors.New("the test has broken them")
			}
			return api.Reloaded{Changes: []api.SettingChange{{Name: "loops", Was: "2", Is: "3"}}}, nil
		},
	}
}

// begin starts a proxy without services, with a database.
func begin(t *testing.T) *contract {
	t.Helper()
	settings := DefaultSettings()
	settings.Fleet = "off" // what the API shows of a fleet, a ledger of the test says
	settings.Listen, settings.Admin = []string{"127.0.0.1:0"}, "127.0.0.1:0"
	settings.AdminSocket = filepath.Join(t.TempDir(), "admin.sock") // without a token, changes are for the socket only
	settings.Database = filepath.Join(t.TempDir(), "config.db")
	settings.Level = new(slog.LevelVar)
	settings.DrainTimeout = 0
	settings.Program = &takeover.Program{Path: "false"}
	settings.Own = processSettings()
	shown := new(ledger)
	settings.ledger = shown
	proxy, err := Start(t.Context(), settings, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Shutdown() })
	c := &contract{t: t, proxy: proxy, ledger: shown, base: "http://localhost", seen: make(map[string]bool)}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", settings.AdminSocket)
	}
	c.admin = &http.Client{Transport: &http.Transport{DialContext: dial}}
	t.Cleanup(c.admin.CloseIdleConnections)
	text, err := os.ReadFile("../operate/admin/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c.paths = doc.(map[string]any)["paths"].(map[string]any)
	closeObjects(doc)
	c.compiler = jsonschema.NewCompiler()
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(descriptionFile, doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// closeObjects refuses properties that a schema does not name.
func closeObjects(value any) {
	switch value := value.(type) {
	case map[string]any:
		_, isObject := value["properties"].(map[string]any)
		if _, open := value["additionalProperties"]; isObject && !open {
			value["additionalProperties"] = false
		}
		for _, v := range value {
			closeObjects(v)
		}
	case []any:
		for _, v := range value {
			closeObjects(v)
		}
	}
}

// valid holds a JSON value against the schema at a place of the description.
func (c *contract) valid(what string, body []byte, place ...string) {
	c.t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	pointer := ""
	for _, key := range place {
		pointer += "/" + escape.Replace(key)
	}
	schema, err := c.compiler.Compile(descriptionFile + "#" + pointer)
	if err != nil {
		c.t.Errorf("%s: %v", what, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		c.t.Errorf("%s: %v\n%s", what, err, body)
	}
}

// request is one request and the answer that it should get.
type request struct {
	method string
	path   string   // as it is described
	names  []string // what stands in its places
	query  string
	header []string // names and values
	body   string
	status int
	says   string // a part of the answer
	tcp    bool   // it comes from a loopback address, not over the admin socket
}

// target returns the URL.
func (c *contract) target(r request) string {
	path := r.path
	for _, name := range r.names {
		i, j := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
		path = path[:i] + name + path[j+1:]
	}
	if r.query != "" {
		path += "?" + r.query
	}
	return c.base + path
}

// send sends a request. Unless it has headers of its own, it has that of changes, and its body is JSON.
func (c *contract) send(ctx context.Context, r request) *http.Response {
	c.t.Helper()
	sent, err := http.NewRequestWithContext(ctx, r.method, c.target(r), strings.NewReader(r.body))
	if err != nil {
		c.t.Fatal(err)
	}
	if r.header == nil {
		sent.Header.Set(api.ChangeHeader, "1")
		if r.body != "" {
			sent.Header.Set("Content-Type", "application/json")
		}
	}
	for i := 0; i+1 < len(r.header); i += 2 {
		sent.Header.Set(r.header[i], r.header[i+1])
	}
	by := c.admin
	if r.tcp {
		by, sent.URL.Host, sent.Host = http.DefaultClient, c.proxy.AdminAddress().String(), ""
	}
	answer, err := by.Do(sent)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// ask sends a request, expects the status and the words, and holds the answer against the description. It returns the answer's body.
func (c *contract) ask(r request) []byte {
	c.t.Helper()
	answer := c.send(c.t.Context(), r)
	body, err := io.ReadAll(answer.Body)
	what := fmt.Sprintf("%s %s", r.method, strings.TrimPrefix(c.target(r), c.base))
	if err != nil || answer.StatusCode != r.status || !strings.Contains(string(body), r.says) {
		c.t.Errorf("%s: %s, %v, %s; want %d, %q", what, answer.Status, err, body, r.status, r.says)
		return body
	}
	c.described(what, r, answer.Header.Get("Content-Type"), body)
	return body
}

// described holds an answer against the description.
func (c *contract) described(what string, r request, contentType string, body []byte) {
	c.t.Helper()
	media, _, _ := strings.Cut(contentType, ";")
	method, status := strings.ToLower(r.method), fmt.Sprint(r.status)
	if r.status == http.StatusMethodNotAllowed {
		c.valid(what, body, "components", "schemas", c.failure(r.path))
		return
	}
	operation, _ := c.paths[r.path].(map[string]any)[method].(map[string]any)
	response, _ := operation["responses"].(map[string]any)[status].(map[string]any)
	if response == nil {
		c.t.Errorf("%s: the status %s is not described", what, status)
		return
	}
	content, _ := response["content"].(map[string]any)
	if content[media] == nil {
		c.t.Errorf("%s: the content type %q is not described", what, contentType)
		return
	}
	c.seen[method+" "+r.path+" "+status] = true
	if media == "application/json" {
		c.valid(what, body, "paths", r.path, method, "responses", status, "content", media, "schema")
	}
}

func (c *contract) failure(path string) string {
	if strings.HasPrefix(path, api.ConfigPath) {
		return "ConfigurationFailure"
	}
	return "Failure"
}

// decode asks for a JSON value.
func decode[T any](c *contract, r request) (value T) {
	c.t.Helper()
	r.method, r.status = http.MethodGet, http.StatusOK
	if err := json.Unmarshal(c.ask(r), &value); err != nil {
		c.t.Fatal(err)
	}
	return value
}

// operations calls f with each operation that is described.
func (c *contract) operations(f func(method, path string, operation map[string]any)) {
	for path, methods := range c.paths {
		for method, operation := range methods.(map[string]any) {
			f(method, path, operation.(map[string]any))
		}
	}
}

// configure adds the service stt with the backends gpu-1 and gpu-2, of one connection each, and waits until they are idle.
func (c *contract) configure() {
	c.t.Helper()
	var mutations []string
	mutations = append(mutations, `{"verb":"add","kind":"service","name":"stt","values":{"path":"/stt","profile":"echo","queue":"2"}}`)
	for _, name := range []string{"gpu-1", "gpu-2"} {
		server, err := sim.Start(sim.Options{})
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(server.Close)
		mutations = append(mutations, fmt.Sprintf(
			`{"verb":"add","kind":"backend","name":%q,"values":{"service":"stt","url":%q,"connections":1,"headers.X-Site":"abc"}}`, name, server.URL()))
	}
	c.ask(request{
		method: "POST", path: "/api/v1/config/changes", status: 200, says: `"version": "1"`,
		body: `{"who":"alice","why":"first","mutations":[` + strings.Join(mutations, ",") + `]}`,
	})
	wstest.Eventually(c.t, "the backends have their connections", func() bool {
		s := c.proxy.Stats()
		return len(s.Backends) == 2 && s.Backends[0].Idle+s.Backends[1].Idle == 2
	})
}

// client connects a client. The id of its session is empty if it was refused.
func (c *contract) client() (conn *websocket.Conn, id string) {
	c.t.Helper()
	dialer := websocket.Dialer{HandshakeTimeout: wstest.Timeout}
	conn, answer, err := dialer.Dial("ws://"+c.proxy.Addresses()[0].String()+"/stt", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn, answer.Header.Get(api.SessionHeader)
}

// session returns the session whose state that is, once there is one.
func (c *contract) session(state string) (found api.Session) {
	c.t.Helper()
	wstest.Eventually(c.t, "a session is "+state, func() bool {
		all := c.proxy.allSessions()
		i := slices.IndexFunc(all, func(s api.Session) bool { return s.State == state })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}
