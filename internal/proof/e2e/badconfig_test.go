//go:build unix

package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestBadRowsSQLite writes rows that make no sense by straight SQL.
func TestBadRowsSQLite(t *testing.T) {
	t.Parallel()
	badRows(t, sqliteDatabase(t))
}

// badRows has a proxy keep the last good configuration, name what is wrong with a row, and continue when it was put
// right.
func badRows(t *testing.T, d *database) {
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 3)
	p := d.serve()
	p.awaitCap("gpu", 3)
	for i, c := range []struct {
		bad, good string
		words     []string
	}{
		{"UPDATE {services} SET queue_timeout = 'soon'", "UPDATE {services} SET queue_timeout = NULL", []string{"service echo: queue-timeout", "soon"}},
		{"UPDATE {services} SET profile = 'vsok'", "UPDATE {services} SET profile = 'echo'", []string{"service echo: profile", "vsok", "vosk"}},
		{"UPDATE {backends} SET url = 'ws://127.0.0.1:99999'", "UPDATE {backends} SET url = '" + p.backend("gpu").URL + "'", []string{"backend gpu: url", "99999"}},
		{"UPDATE {backends} SET warm = 40", "UPDATE {backends} SET warm = NULL", []string{"backend gpu: warm", "40"}},
		{
			"INSERT INTO {schema_version} (version_id, is_applied) VALUES (99, %[1]s)", "DELETE FROM {schema_version} WHERE version_id = 99",
			[]string{"schema", "99"},
		},
	} {
		yes := "true"
		if d.schema == "" {
			yes = "1"
		}
		bad := c.bad
		if strings.Contains(bad, "%[1]s") {
			bad = fmt.Sprintf(bad, yes)
		}
		// What only the next change shows, such as the schema, has one.
		d.sql("%s", d.named(bad))
		d.sql("UPDATE {backends} SET connections = %d", 10+i)
		s := p.awaitState("stale", c.words...)
		if b := p.backend("gpu"); b.Idle == 0 || b.Cap >= 10 {
			t.Errorf("%s: in force: %+v", bad, b)
		}
		if status, body := p.get("/readyz"); status != http.StatusOK {
			t.Errorf("/readyz: %d %s", status, body)
		}
		session := dialFree(t, p.url("/echo"))
		session.echo("by the last good one")
		session.close(1000, "")
		t.Logf("%s: %s", bad, s.Configuration.Reason)
		d.sql("UPDATE {backends} SET connections = %d", 3+i)
		d.sql("%s", d.named(c.good))
		d.sql("UPDATE {backends} SET connections = %d", 4+i)
		p.awaitState("current")
		p.awaitCap("gpu", 4+i)
	}
}

// named puts the names of tables into a statement.
func (d *database) named(statement string) string {
	return strings.NewReplacer("{", d.schema, "}", "").Replace(statement)
}

// What a proxy does without the right to write, or while another process does not stop writing.
func TestReadOnlyAndLockedSQLite(t *testing.T) {
	t.Parallel()
	d := sqliteDatabase(t)
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 3)
	other, err := sql.Open("sqlite", "file:"+d.name+"?_pragma=busy_timeout(20000)&_txlock=exclusive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	p := d.serve()
	p.awaitCap("gpu", 3)
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE backends SET connections = 4"); err != nil {
		t.Fatal(err)
	}
	r := runCommand(t, "backend", "set", "gpu", "--connections", "5", "--admin", p.socket())
	if r.status != 1 || !strings.Contains(r.stderr, "locked") {
		t.Errorf("while it is locked: status %d\n%s", r.status, r.stderr)
	}
	if state := p.stats().Configuration.State; state != "current" {
		t.Errorf("while it is locked the configuration is %s", state)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	p.awaitCap("gpu", 4)
	p.stop()

	if err := os.Chmod(d.name, 0o444); err != nil {
		t.Fatal(err)
	}
	p = d.serve()
	p.awaitCap("gpu", 4)
	r = runCommand(t, "backend", "set", "gpu", "--connections", "5", "--admin", p.socket())
	if r.status != 1 || !strings.Contains(r.stderr, "is read-only") {
		t.Errorf("a file that can only be read: status %d\n%s", r.status, r.stderr)
	}
	d.sql("UPDATE backends SET connections = 5") // its owner may
	p.awaitCap("gpu", 5)
}

// A file with a bomb in it costs the proxy nothing but the change.
func TestBombInFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	good := fmt.Sprintf("services:\n  echo:\n    path: /echo\n    profile: echo\nbackends:\n  gpu:\n    service: echo\n    url: %s\n    connections: %%d\n",
		wstest.StartLibraryServer(t, wstest.LibraryEcho).URL)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf(good, 2))
	p := (&database{t: t, name: path}).serve()
	p.awaitCap("gpu", 2)
	before := residentMemory(t, p.PID())
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	for i, text := range []string{bomb, strings.Repeat("[", 100_000), "services: {" + strings.Repeat("a: {", 50_000)} {
		write(text)
		s := p.awaitState("stale", "config.yaml")
		t.Logf("%.200s", s.Configuration.Reason)
		session := dialFree(t, p.url("/echo"))
		session.echo("still")
		session.close(1000, "")
		write(fmt.Sprintf(good, 3+i))
		p.awaitCap("gpu", 3+i)
		p.awaitState("current")
	}
	if after := residentMemory(t, p.PID()); after > before+300<<20 { // the bomb has 9^26 elements
		t.Errorf("resident memory grew from %d to %d bytes", before, after)
	}
}

// badPassword has a proxy keep a password for itself that PostgreSQL does not take.
func badPassword(t *testing.T, server *pgtest.Server, d *database) {
	const secret = "hunter2-and-more"
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 2)
	state := t.TempDir()
	p := d.serve("--state-directory", state)
	p.awaitCap("gpu", 2)
	p.stop()
	d.name = server.URL(pgtest.User, secret, strings.TrimSuffix(d.name[strings.LastIndexByte(d.name, '/')+1:], "?sslmode=disable"))
	p = d.serve("--state-directory", state, "--log-level", "debug")
	s := p.awaitState("copied", "password authentication failed")
	p.awaitCap("gpu", 2)
	_, statistics := p.get("/api/v1/stats")
	_, metrics := p.get("/metrics")
	list := runCommand(t, "backend", "ls", "--database", d.name)
	served := runCommand(t, "serve", "--listen", "127.0.0.1:0", "--database", d.name, "--state-directory", t.TempDir())
	through := runCommand(t, "backend", "set", "gpu", "--connections", "5", "--admin", p.socket())
	for what, r := range map[string]runResult{"backend ls": list, "serve": served, "backend set": through} {
		if r.status != 1 {
			t.Errorf("%s: status %d", what, r.status)
		}
	}
	for what, text := range map[string]string{
		"the statistics": statistics, "the metrics": metrics, "the log": strings.Join(p.stderr.Lines(), "\n"),
		"backend ls": list.stdout + list.stderr, "serve": served.stdout + served.stderr, "backend set": through.stdout + through.stderr,
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s has the password:\n%s", what, text)
		}
	}
	t.Log(s.Configuration.Source, s.Configuration.Reason)
}

// A proxy whose database cannot be opened when it starts goes by its copy, and says so, until the database is as it was.
func TestStartWithoutDatabase(t *testing.T) {
	t.Parallel()
	d := sqliteDatabase(t)
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 3)
	state := t.TempDir()
	p := d.serve("--state-directory", state)
	p.awaitCap("gpu", 3)
	p.stop()
	good, err := os.ReadFile(d.name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func() error
		words []string
	}{
		{"it is gone", func() error { return os.Remove(d.name) }, []string{"config.db no longer exists", "last-good.yaml"}},
		{"it is empty", func() error { return os.WriteFile(d.name, nil, 0o600) }, []string{"config.db is empty (0 bytes)", "config import", "last-good.yaml"}},
		{"it is damaged", func() error { return os.WriteFile(d.name, []byte(strings.Repeat("no database ", 1000)), 0o600) }, []string{"not a SQLite database"}},
		{"it is of a later version", func() error {
			db, err := sql.Open("sqlite", "file:"+d.name)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec("INSERT INTO schema_version (version_id, is_applied) VALUES (99, 1)")
			return err
		}, []string{"schema", "99"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.spoil(); err != nil {
				t.Fatal(err)
			}
			p := (&database{t: t, name: d.name}).serve("--state-directory", state)
			p.awaitState("copied", c.words...)
			p.awaitCap("gpu", 3)
			session := dialFree(t, p.url("/echo"))
			session.echo("by the copy")
			session.close(1000, "")
			if kept, err := os.ReadFile(filepath.Join(state, "last-good.yaml")); err != nil || !strings.Contains(string(kept), "connections: 3") {
				t.Errorf("the copy became %s, %v", kept, err)
			}
			if r := runCommand(t, "backend", "set", "gpu", "--connections", "9", "--admin", p.socket()); r.status != 1 {
				t.Errorf("a change without the database: status %d\n%s", r.status, r.stdout)
			}
			for _, left := range []string{"-wal", "-shm"} {
				_ = os.Remove(d.name + left)
			}
			if err := os.WriteFile(d.name+".new", good, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(d.name+".new", d.name); err != nil {
				t.Fatal(err)
			}
			p.awaitState("current")
			mustRun(t, "backend", "set", "gpu", "--connections", "4", "--admin", p.socket())
			p.awaitCap("gpu", 4)
			mustRun(t, "backend", "set", "gpu", "--connections", "3", "--admin", p.socket())
			p.awaitCap("gpu", 3)
			p.stop()
			if good, err = os.ReadFile(d.name); err != nil {
				t.Fatal(err)
			}
		})
	}
}
