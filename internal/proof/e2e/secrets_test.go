//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestSecretsStayInside runs a proxy with a secret in each place that has one, lets clients send more, and looks for all of them in what
// the proxy writes and answers. It also finds that the proxy writes nothing outside its state directory, and nothing there that all users
// can read.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"state", "home", "tmp", "cwd"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tokens := filepath.Join(root, "home", "reader-token")
	if err := os.WriteFile(tokens, []byte("S3CRET-reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startSim(t, "--protocol", "echo")
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug", "--drain-timeout", "1s",
		"--state-directory", filepath.Join(root, "state"), "--admin-token", "env:MY_TOKEN", "--admin-reader-token", "file:"+tokens)
	cmd.Dir = filepath.Join(root, "cwd")
	variables := []string{
		"MY_TOKEN=S3CRET-operator", "WSBOUNCER_SECRET_BACKEND=S3CRET-backend", "HOME=" + filepath.Join(root, "home"), "TMPDIR=" + filepath.Join(root, "tmp"), "PATH=" + os.Getenv("PATH"),
		environment()[len(os.Environ())],
	}
	cmd.Env = variables
	p := &proxy{child: start(t, "serve", cmd)}
	p.address = p.awaitLog("listening").text("address")
	p.admin = p.awaitLog("admin API").text("address")

	var seen []string // all that was said
	run := func(args ...string) string {
		cmd := exec.Command(binary, append(args, "--admin", p.admin, "--admin-token", "env:MY_TOKEN")...)
		cmd.Env = variables
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	var added struct{ Key string } // before the service, so that it is in force when the service is
	if err := json.Unmarshal([]byte(run("key", "add", "device", "--tenant", "acme", "-o", "json")), &added); err != nil || len(added.Key) < 20 {
		t.Fatalf("key %q, %v", added.Key, err)
	}
	seen = append(seen,
		run("service", "add", "stt", "--path", "/v1", "--auth", "keys", "--auth-from", "header,query:key,cookie:k", "--profile", "echo"),
		run("backend", "add", "gpu-1", server.url+"/?api_key=env:WSBOUNCER_SECRET_BACKEND", "--connections", "2", "--header", "X-Customer=env:WSBOUNCER_SECRET_BACKEND"))
	dial := func(target string, header http.Header) (int, *websocket.Conn) {
		ctx, cancel := context.WithTimeout(t.Context(), wstest.Timeout)
		defer cancel()
		conn, response, err := websocket.Dial(ctx, p.url(target), &websocket.DialOptions{HTTPHeader: header})
		if response == nil {
			t.Fatal(err)
		}
		return response.StatusCode, conn
	}
	wstest.Eventually(t, "the configuration is in force", func() bool {
		status, _ := dial("/v1", nil)
		return status == http.StatusUnauthorized
	})
	for _, c := range []struct {
		target string
		header http.Header
	}{
		{"/v1?key=S3CRET-query", nil},
		{"/v1?access_token=S3CRET-other", http.Header{"Authorization": {"Bearer S3CRET-header"}}},
		{"/v1", http.Header{"Cookie": {"k=S3CRET-cookie"}}},
	} {
		if status, _ := dial(c.target, c.header); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", c.target, status)
		}
	}
	status, conn := dial("/v1?key="+added.Key, http.Header{"Cookie": {"k=S3CRET-cookie"}})
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("with the key: status %d", status)
	}
	defer conn.CloseNow()
	ask := func(path, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Close = true
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
	_, body := ask("/api/v1/sessions", "S3CRET-operator")
	var list struct{ Sessions []struct{ ID, Tenant string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Sessions) != 1 || list.Sessions[0].Tenant != "acme" {
		t.Fatalf("sessions: %s, %v", body, err)
	}
	id := list.Sessions[0].ID
	for _, path := range []string{
		"/metrics", "/readyz", "/api/v1/access", "/api/v1/stats", "/api/v1/sessions", "/api/v1/sessions?state=ended", "/api/v1/sessions/" + id,
		"/api/v1/config", "/api/v1/config/history", "/api/v1/audit", "/api/v1/history",
	} {
		status, body := ask(path, "S3CRET-reader")
		if status != http.StatusOK {
			t.Errorf("%s: status %d", path, status)
		}
		seen = append(seen, path+": "+body)
	}
	_, body = ask("/api/v1/sessions", "S3CRET-wrong")
	seen = append(seen, body, run("status"), run("config", "show"), run("backend", "show", "gpu-1"), run("key", "ls"), run("session", "show", id))
	check := exec.Command(binary, "check", "--state-directory", filepath.Join(root, "state"), "--admin-token", "env:MY_TOKEN", "--admin-reader-token", "file:"+tokens)
	check.Env = variables
	out, err := check.CombinedOutput()
	if err != nil {
		t.Errorf("check: %v: %s", err, out)
	}
	seen = append(seen, string(out))
	p.signal(syscall.SIGHUP)
	p.awaitLog("settings reloaded")
	_ = conn.CloseNow()
	p.stop()
	seen = append(seen, p.stderr.Lines()...)
	for _, text := range seen {
		for _, secret := range []string{"S3CRET", added.Key} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret (%.6s...) in: %.2000s", secret, text)
			}
		}
	}
	var outside []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == tokens {
			return err
		}
		within, _ := filepath.Rel(filepath.Join(root, "state"), path)
		if strings.HasPrefix(within, "..") {
			outside = append(outside, path)
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o007 != 0 {
			t.Errorf("all users may use %s: its mode is %v", path, info.Mode())
		}
		if content, err := os.ReadFile(path); err == nil && (strings.Contains(string(content), "S3CRET") || strings.Contains(string(content), added.Key)) {
			t.Errorf("a secret is stored in %s", path)
		}
		return err
	})
	if slices.Sort(outside); err != nil || len(outside) > 0 {
		t.Errorf("the proxy wrote %v, %v", outside, err)
	}
}

// A secret that was stored in a URL before that was refused is shown nowhere, to readers at least, and its backend keeps serving.
func TestStoredSecretInURL(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := startSim(t, "--protocol", "echo")
	configuration := filepath.Join(root, "config.yaml")
	if err := os.WriteFile(configuration, []byte("services:\n  stt: {path: /v1, profile: echo}\nbackends:\n  gpu-1: {service: stt, connections: 2, url: '"+
		server.url+"/?token=S3CRET-used'}\n  gpu-2: {service: stt, connections: 2, url: 'ws://127.0.0.1:1/?sig=S3CRET-dead'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proxy{child: startChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--database", configuration, "--state-directory", filepath.Join(root, "state"),
		"--log-format", "json", "--log-level", "debug", "--drain-timeout", "1s")}
	p.address = p.awaitLog("listening").text("address")
	p.admin = p.awaitLog("admin API").text("address")
	p.awaitLog("backend not reachable, trying again")
	var seen []string
	for _, args := range [][]string{
		{"status"}, {"status", "-o", "json"}, {"config", "show"}, {"config", "history"}, {"backend", "ls", "-o", "wide"}, {"backend", "ls", "-o", "json"}, {"backend", "show", "gpu-1"},
	} {
		cmd := exec.Command(binary, append(args, "--admin", p.admin)...)
		cmd.Env = environment()
		out, err := cmd.CombinedOutput()
		if err != nil && args[0] != "status" { // which fails since a backend is unreachable
			t.Errorf("%v: %v: %s", args, err, out)
		}
		seen = append(seen, string(out))
	}
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/stats", "/api/v1/config", "/api/v1/config/history", "/api/v1/history", "/api/v1/proxies"} {
		response, err := http.Get(p.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, path+": "+string(body))
	}
	check := exec.Command(binary, "check", "--database", configuration, "--state-directory", filepath.Join(root, "state"))
	check.Env = environment()
	out, err := check.CombinedOutput()
	if want := "Warning: the URL of the backend gpu-1 has a secret, in the parameter token: use token=env:NAME or token=file:/path, or a header"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("check: %v: %s", err, out)
	}
	p.stop()
	log := strings.Join(p.stderr.Lines(), "\n")
	if !strings.Contains(log, "the URL of the backend gpu-1 has a secret") {
		t.Errorf("the log does not warn: %s", log)
	}
	for _, text := range append(seen, string(out), log) {
		if strings.Contains(text, "S3CRET") {
			t.Errorf("a secret in: %.3000s", text)
		}
	}
}
