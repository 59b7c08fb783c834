//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestKeys has the operator of two proxies make a key, clients use it in each way that browsers and programs have, and the operator revoke
// it: both proxies end its sessions, and no client gets in with it. Nothing that the proxies write has the key.
func TestKeys(t *testing.T) {
	t.Parallel()
	server, d := startSim(t, "--protocol", "echo"), sqliteDatabase(t)
	d.command("service", "add", "echo", "--path", "/v1", "--profile", "echo", "--ping-interval", "0s", "--auth", "keys",
		"--auth-from", "header,query:key,subprotocol:token", "--end-unauthorized")
	d.command("backend", "add", "gpu-1", server.url, "--connections", "8")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(d.command("key", "add", "phone", "--tenant", "acme", "--expires", "1d", "-o", "json").stdout), &made); err != nil {
		t.Fatal(err)
	}
	proxies := []*proxy{d.serve("--access-log", t.TempDir()+"/access.log", "--log-level", "debug"), d.serve("--log-level", "debug")}
	ctx, cancel := context.WithTimeout(t.Context(), wstest.Timeout)
	defer cancel()
	dial := func(p *proxy, target, authorization string, offers ...string) (*websocket.Conn, *http.Response, error) {
		options := &websocket.DialOptions{Subprotocols: offers, HTTPHeader: http.Header{}}
		if authorization != "" {
			options.HTTPHeader.Set("Authorization", authorization)
		}
		return websocket.Dial(ctx, p.url(target), options)
	}
	var sessions []*websocket.Conn
	for _, p := range proxies {
		p.awaitReady()
		for _, way := range []struct{ target, authorization, word string }{
			{"/v1", "Bearer " + made.Key, ""}, {"/v1", "Token " + made.Key, ""}, {"/v1?key=" + made.Key, "", ""}, {"/v1", "", "token"},
		} {
			var offers []string
			if way.word != "" {
				offers = []string{way.word, made.Key}
			}
			conn, _, err := dial(p, way.target, way.authorization, offers...)
			if err != nil {
				t.Fatalf("%+v: %v", way, err)
			}
			if conn.Subprotocol() != way.word {
				t.Errorf("%+v: granted %q", way, conn.Subprotocol())
			}
			if err := conn.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, text, err := conn.Read(ctx); err != nil || string(text) != "hello" {
				t.Errorf("%+v: %q, %v", way, text, err)
			}
			sessions = append(sessions, conn)
		}
		for authorization, status := range map[string]int{"": 401, "Bearer nonsense": 401, "Bearer " + made.Key[:len(made.Key)-1]: 401} {
			_, response, err := dial(p, "/v1", authorization)
			if err == nil || response == nil || response.StatusCode != status || !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), `Bearer realm="echo"`) {
				t.Errorf("%.10s...: %v, %v", authorization, response, err)
			}
		}
	}
	d.command("key", "revoke", "phone", "--why", "lost")
	for i, conn := range sessions {
		var closed websocket.CloseError
		if _, _, err := conn.Read(ctx); !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != "the API key was revoked" {
			t.Errorf("session %d ends with %v", i, err)
		}
	}
	for _, p := range proxies {
		if _, response, err := dial(p, "/v1", "Bearer "+made.Key); err == nil || response.StatusCode != http.StatusUnauthorized {
			t.Errorf("after it was revoked: %v, %v", response, err)
		}
		if end := p.awaitLog("session ended"); end.text("tenant") != "acme" || end.text("key") != "phone" || end.text("class") != "unauthorized" {
			t.Errorf("the log says %v", end)
		}
		p.stop()
		for _, line := range p.stderr.Lines() {
			if strings.Contains(line, made.Key) {
				t.Errorf("the log has the key: %s", line)
			}
		}
	}
	if history := d.command("config", "history").stdout; !strings.Contains(history, "lost") || strings.Contains(history, made.Key) {
		t.Errorf("the history says\n%s", history)
	}
}
