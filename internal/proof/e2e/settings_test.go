//go:build unix

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTokenChanges has the token of the admin API in a file, which is read again with the settings.
func TestTokenChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	status := func(p *proxy, token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/api/v1/config", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if err := os.WriteFile(path, []byte("s3cret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, "--backend", good, "--warm", "0", "--admin-token", "file:"+path)
	if first, second := status(p, "s3cret-1"), status(p, "s3cret-2"); first != http.StatusOK || second != http.StatusUnauthorized {
		t.Errorf("statuses %d and %d", first, second)
	}
	if err := os.WriteFile(path, []byte("s3cret-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.awaitLog("settings reloaded")
	if first, second := status(p, "s3cret-1"), status(p, "s3cret-2"); first != http.StatusUnauthorized || second != http.StatusOK {
		t.Errorf("after the change: statuses %d and %d", first, second)
	}
	p.stop()
	if log := strings.Join(p.stderr.Lines(), "\n"); strings.Contains(log, "s3cret") {
		t.Errorf("the log shows a token:\n%s", log)
	}
}

// TestReload changes the file of settings of a running proxy, and sends it the signal to read it again.
func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "wsbouncer.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("handshake-timeout: 5s\nloops: 1\n")
	p := startProxy(t, "--settings", path, "--backend", good, "--warm", "0", "--path", "/v1")
	long := func() (status int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Long", strings.Repeat("x", 2<<10))
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := long(); status != http.StatusNotFound {
		t.Errorf("a long request gets %d", status)
	}

	write("handshake-timeout: 5\n")
	p.signal(syscall.SIGHUP)
	p.awaitLog("settings not changed because of errors")
	if r := p.logged("invalid setting")[0]; r.text("error") != path+
		`:1:20: handshake-timeout: invalid duration "5": use a number with a unit, such as 500ms, 10s or 1m30s` {
		t.Errorf("logged %v", r)
	}

	write("handshake-timeout: 7s\nmax-header: 1KiB\nloops: 2\nlog-level: debug\ndrain-timeout: 20s\n") // the last one is a flag already
	p.signal(syscall.SIGHUP)
	if r := p.awaitLog("settings reloaded"); r.text("file") != path || r.number("changes") != 4 {
		t.Errorf("logged %v", r)
	}
	changed := p.logged("setting changed")
	for i, want := range []string{"max-header 16KiB 1KiB", "handshake-timeout 5s 7s", "log-level info debug"} {
		if i >= len(changed) || changed[i].text("name")+" "+changed[i].text("was")+" "+changed[i].text("is") != want {
			t.Errorf("changed: %v; want %s", changed, want)
		}
	}
	if r := p.logged("setting needs a restart"); len(r) != 1 || r[0].text("name") != "loops" || r[0].text("in force") != "1" || r[0].text("new") != "2" {
		t.Errorf("needs a restart: %v", r)
	}
	if status := long(); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a request that is too long now gets %d", status)
	}
	p.stop()
}
