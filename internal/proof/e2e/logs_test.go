//go:build unix

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// accessLines returns the lines of an access log in JSON.
func accessLines(t *testing.T, path string) (lines []record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, r)
	}
	return lines
}

// refusedAt asks for a path that leads to no service. It returns the id of the refused client.
func (p *proxy) refusedAt(path string) (id string) {
	p.t.Helper()
	response, err := http.Get("http://" + p.address + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusNotFound {
		p.t.Errorf("%s: %s, %v", path, response.Status, err)
	}
	return response.Header.Get("X-Wsbouncer-Session-Id")
}

// TestAccessLog has the access log tell of sessions and refused clients, the same as the log, and rotates it.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--path", "/v1/echo", "--connections", "2", "--access-log", path)
	c := dialRaw(t, p.url("/v1/echo?token=s3cret"))
	c.echo("hello")
	c.close(4000, "enough")
	p.settle()
	logged := p.awaitSession()
	var lines []record
	wstest.Eventually(t, "the session is in the access log", func() bool { lines = accessLines(t, path); return len(lines) == 1 })
	for _, name := range []string{"id", "service", "path", "backend", "connection", "client", "by", "code", "reason", "connection_fate", "bytes_from_client"} {
		if lines[0][name] != logged[name] || logged[name] == nil {
			t.Errorf("%s is %v in the access log, and %v in the log", name, lines[0][name], logged[name])
		}
	}
	if lines[0].number("status") != 101 || lines[0].text("path") != "/v1/echo" {
		t.Errorf("%v", lines[0])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	id := p.refusedAt("/nowhere?token=s3cret")
	if r := p.awaitLog("client refused"); r.text("id") != id || r.text("path") != "/nowhere" || r.number("status") != 404 {
		t.Errorf("logged %v", r)
	}
	wstest.Eventually(t, "the refused client is in the access log", func() bool { lines = accessLines(t, path); return len(lines) == 2 })
	if r := lines[1]; r.text("id") != id || r.text("path") != "/nowhere" || r.number("status") != 404 || r["by"] != nil {
		t.Errorf("%v", r)
	}

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGUSR1)
	p.awaitLog("access log opened again")
	id = p.refusedAt("/again")
	p.stop() // which writes what is left
	if lines = accessLines(t, path); len(lines) != 1 || lines[0].text("id") != id {
		t.Errorf("the new file has %v", lines)
	}
	if n := len(accessLines(t, path+".1")); n != 2 {
		t.Errorf("the old file has %d lines", n)
	}
	for _, place := range []string{path, path + ".1"} {
		if text, err := os.ReadFile(place); err != nil || strings.Contains(string(text), "s3cret") {
			t.Errorf("%v, %s", err, text)
		}
	}
	if text := strings.Join(p.stderr.Lines(), "\n"); strings.Contains(text, "s3cret") {
		t.Errorf("the log shows a secret:\n%s", text)
	}
}

// TestAccessLogFails has an access log that cannot be written, which costs no session anything.
func TestAccessLogFails(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "2", "--access-log", filepath.Join(t.TempDir(), "missing", "access.log"))
	p.awaitLog("the access log cannot be written: trying again every second")
	c := dialRaw(t, p.url("/"))
	c.echo("hello")
	c.close(1000, "")
	p.settle()
	p.stop()
	if r := p.logged("the access log lacks the last lines"); len(r) != 1 || r[0].number("lines") != 1 {
		t.Errorf("logged %v", r)
	}
	if n := len(p.logged("the access log cannot be written: trying again every second")); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}

// TestNoAccessLogToReopen: a signal that asks to open what there is not does not end the process, as it would by default.
func TestNoAccessLogToReopen(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--backend", good, "--warm", "0")
	p.signal(syscall.SIGUSR1)
	p.awaitLog("there is no access log to open again")
	p.stop()
}

// TestLogLevel changes the level of a running proxy's log with the command.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "2", "--admin-socket", filepath.Join(t.TempDir(), "admin.sock"))
	level := func(args ...string) string {
		t.Helper()
		r := runCommand(t, append([]string{"log", "level", "--admin", p.socket()}, args...)...)
		if r.status != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
		return r.stdout
	}
	session := func() {
		t.Helper()
		c := dialRaw(t, p.url("/"))
		c.echo("hello")
		c.close(1000, "")
		p.settle()
	}
	if got := level(); got != "info\n" {
		t.Errorf("at first %q", got)
	}
	session()
	p.awaitLog("session ended")
	if got := level("debug", "--who", "alice", "--why", "a look"); got != "debug\n" {
		t.Errorf("changed to %q", got)
	}
	if r := p.awaitLog("operator action"); r.text("action") != "log-level" || r.text("target") != "debug" || r.text("who") != "alice" || r.text("why") != "a look" {
		t.Errorf("audit log: %v", r)
	}
	session()
	p.awaitLog("session started")
	level("warn")
	ended := len(p.logged("session ended"))
	session()
	if got := level(); got != "warn\n" {
		t.Errorf("at last %q", got)
	}
	p.stop()
	if n, m := len(p.logged("session started")), len(p.logged("session ended")); n != 1 || m != ended {
		t.Errorf("%d sessions began in the log, and %d ended; want 1 and %d", n, m, ended)
	}
	for _, c := range []struct{ args, says string }{
		{"debugg", `unknown log level "debugg": did you mean "debug"?`},
		{"info warn", "takes one level"},
		{"--who alice", "name the new level"},
	} {
		if r := runCommand(t, append([]string{"log", "level"}, strings.Fields(c.args)...)...); r.status != 2 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
