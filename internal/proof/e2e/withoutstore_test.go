//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// views are the commands that look at what a proxy runs with, and what they must show of it.
var views = []struct {
	args  []string
	shows []string
}{
	{[]string{"backend", "ls"}, []string{"gpu", "IDLE", "healthy"}},
	{[]string{"backend", "show", "gpu"}, []string{"connections", "NOW", "idle"}},
	{[]string{"service", "ls"}, []string{"echo", "WAITING"}},
	{[]string{"service", "show", "echo"}, []string{"/echo"}},
	{[]string{"config", "show"}, []string{"Version ", "which is in force", "gpu", "healthy", "own"}},
	{[]string{"profile", "ls"}, []string{"own", "vosk"}},
	{[]string{"profile", "show", "own"}, []string{"from: echo"}},
}

// withoutStore has the store fail, and looks at the proxy nevertheless.
func withoutStore(t *testing.T, d *database, fail func()) {
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 3)
	path := t.TempDir() + "/own.yaml"
	if err := os.WriteFile(path, []byte("from: echo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.command("profile", "add", "own", "--file", path)
	p := d.serve()
	p.awaitCap("gpu", 3)
	version := p.stats().Configuration.Version
	ask := func(args ...string) runResult { return runCommand(t, append(args, "--admin", p.socket())...) }
	for _, c := range views {
		if r := ask(c.args...); r.status != 0 || r.stderr != "" {
			t.Errorf("%q: status %d, %s", c.args, r.status, r.stderr)
		}
	}
	fail()
	s := p.awaitState("stale")
	since := s.Configuration.Since.UTC().Format("2006-01-02T15:04:05Z")
	for _, c := range views {
		r := ask(c.args...)
		if r.status != 0 || !containsAll(r.stdout, c.shows...) {
			t.Errorf("%q: status %d\n%s%s; want %q", c.args, r.status, r.stdout, r.stderr, c.shows)
		}
		if !containsAll(r.stderr, "The configuration store has failed since "+since+": ", "Shown is version "+version+", which is in force.") {
			t.Errorf("%q: says %q; failed since %s: %s", c.args, r.stderr, since, s.Configuration.Reason)
		}
	}
	type stale struct {
		Stale struct{ Since, Reason string }
	}
	check := func(what, text string, s stale) {
		t.Helper()
		if !strings.HasPrefix(s.Stale.Since, strings.TrimSuffix(since, "Z")) || s.Stale.Reason == "" {
			t.Errorf("%s has no mark:\n%s", what, text)
		}
	}
	var whole stale
	text := ask("config", "show", "--output", "json").stdout
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		t.Error(err)
	}
	check("config show", text, whole)
	for _, args := range [][]string{{"backend", "ls"}, {"service", "ls"}} {
		var list []stale
		text := ask(append(args, "--output", "json")...).stdout
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		check(args[0], text, list[0])
	}
	for _, args := range [][]string{
		{"backend", "drain", "gpu"}, {"backend", "set", "gpu", "--connections", "4"}, {"service", "rm", "echo", "--with-backends"},
	} {
		if r := ask(args...); r.status != 1 || !strings.Contains(r.stderr, "cannot change the configuration because its store fails: ") {
			t.Errorf("%q: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	for _, args := range [][]string{{"config", "export"}, {"config", "history"}} { // what the store alone knows
		if r := ask(args...); r.status != 1 || r.stdout != "" || r.stderr == "" {
			t.Errorf("%q: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	if text := ask("backend", "ls").stderr + ask("backend", "drain", "gpu").stderr; strings.Contains(text, pgtest.Password) {
		t.Errorf("the password is shown:\n%s", text)
	}
}

// TestViewsWithoutSQLite has the database's file become unreadable.
func TestViewsWithoutSQLite(t *testing.T) {
	t.Parallel()
	d := sqliteDatabase(t)
	withoutStore(t, d, func() {
		for _, path := range []string{d.name, d.name + "-wal"} { // in place, as a broken disk does
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// viewsWithoutPostgres has the server be stopped.
func viewsWithoutPostgres(t *testing.T, server *pgtest.Server, d *database) {
	withoutStore(t, d, func() {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	})
	restartPostgres(t, server)
	for _, command := range []string{"backend ls", "backend drain gpu"} {
		wstest.Eventually(t, command+" works again", func() bool {
			r := d.command(strings.Fields(command)...)
			return r.status == 0 && r.stderr == ""
		})
	}
}
