package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// What names the configuration: flags, WSBOUNCER_ADMIN, WSBOUNCER_DATABASE, the socket of this machine's proxy, in that order.
func TestTarget(t *testing.T) {
	s := onProxy(t, open) // in the state directory
	s.playing(func() api.Stats { return api.Stats{} })
	s.must("service add in-proxy")
	directory := t.TempDir()
	named := func(name string) (database string) {
		database = filepath.Join(directory, name+".db")
		if status, _, messages := command("service", "add", name, "--database", database); status != 0 {
			t.Fatal(messages)
		}
		return database
	}
	byFlag, byVariable := named("by-flag"), named("by-variable")
	sees := func(what, want string, args ...string) {
		t.Helper()
		status, out, messages := command(append([]string{"service", "ls"}, args...)...)
		if status != 0 || !strings.Contains(out, "\n"+want+" ") {
			t.Errorf("%s: status %d, %s%s; want %s", what, status, out, messages, want)
		}
	}
	sees("the machine's proxy", "in-proxy")
	t.Setenv(databaseVariable, byVariable)
	sees("WSBOUNCER_DATABASE", "by-variable")
	t.Setenv(adminVariable, "unix:"+s.socket)
	sees("WSBOUNCER_ADMIN before it", "in-proxy")
	sees("flags before both", "by-flag", "--database", byFlag)
	t.Setenv(adminVariable, "state/admin.sock")
	if status, _, messages := command("service", "ls"); status != 2 || !strings.Contains(messages, "Error: WSBOUNCER_ADMIN: invalid admin API address") {
		t.Errorf("a path without unix: status %d, %s", status, messages)
	}
	t.Setenv(adminVariable, "unix:/none.sock")
	sees("the flag before the variable", "in-proxy", "--admin", "unix:"+s.socket)
}

// Commands find the proxy of WSBOUNCER_STATE_DIRECTORY, and say what to do where they may not look.
func TestLocalProxy(t *testing.T) {
	s := onProxy(t, open)
	s.playing(func() api.Stats { return api.Stats{} })
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	t.Setenv(settings.Variable("state-directory"), filepath.Dir(s.socket))
	for _, args := range [][]string{{"service", "ls"}, {"problems"}} {
		if status, _, messages := command(args...); status != 0 {
			t.Errorf("%v: status %d, %s", args, status, messages)
		}
	}
	if os.Geteuid() == 0 {
		t.Skip("root may look everywhere")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Setenv(settings.Variable("state-directory"), closed)
	for _, args := range [][]string{{"service", "ls"}, {"problems"}} {
		status, _, messages := command(args...)
		if status != 1 || !strings.Contains(messages, "permission denied (run this command with sudo") {
			t.Errorf("%v: status %d, %s", args, status, messages)
		}
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestNoTarget(t *testing.T) {
	directory := alone(t)
	missing := filepath.Join(directory, "none.db")
	for _, c := range []refusal{
		{[]string{"backend", "ls"}, 2, "no proxy and no database is given, and no proxy on this machine has its admin socket at " + filepath.Join(directory, "admin.sock")},
		{[]string{"backend", "ls", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"backend", "add", "gpu-1", "ws://a", "--connections", "1", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"key", "add", "phone", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"tenant", "add", "acme", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"service", "add", "stt", "--dry-run", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"backend", "set", "gpu-1", "--weight", "1", "--database", missing}, 1, "the database " + missing + " does not exist"},
		{[]string{"backend", "ls", "--database", "mysql://a:s3cret@b/c"}, 2, `--database: invalid database "mysql://a:xxxxx@b/c"`},
		{[]string{"backend", "ls", "--database", ":memory:"}, 2, ":memory: would end with this command"},
		{[]string{"backend", "ls", "--admin", "gpu"}, 2, `invalid admin API address "gpu" (the port is missing)`},
		{
			[]string{"backend", "ls", "--admin", "unix:" + directory + "/none.sock"},
			1,
			"no proxy answers at unix:" + directory + "/none.sock: connect: no such file or directory (is it running?",
		},
	} {
		status, out, messages := command(c.args...)
		if status != c.status || out != "" || !strings.Contains(messages, c.says) || strings.Contains(messages, "s3cret") {
			t.Errorf("%v: status %d, %s, %s; want %d, %s", c.args, status, out, messages, c.status, c.says)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Errorf("%s was made by a command that only reads", missing)
	}
}

// Tokens come from the flag or the environment, and are never shown.
func TestAdminToken(t *testing.T) {
	s := onProxy(t, admin.Access{Token: func() string { return "s3cret" }})
	s.refuse(
		refusal{[]string{"service", "ls"}, 1, "refused: the admin API needs a token"},
		refusal{[]string{"service", "add", "stt", "--admin-token", "s3cret2"}, 1, "refused: wrong token for the admin API"},
	)
	s.must("service add stt --admin-token s3cret")
	t.Setenv(tokenVariable, "s3cret")
	s.must("service set stt --queue 7")
	path := s.write("s3cret\n")
	t.Setenv(tokenVariable, "file:"+path)
	t.Setenv("MINE", "s3cret")
	s.must("service set stt --queue 8", "service set stt --queue 9 --admin-token env:MINE")
	s.refuse(
		refusal{[]string{"service", "ls", "--admin-token", "env:NONE_SUCH"}, 2, "--admin-token: env:NONE_SUCH: the environment variable is not set"},
		refusal{[]string{"service", "ls", "--admin-token", "file:" + path + ".not"}, 2, "no such file"},
		refusal{[]string{"service", "ls", "--admin-token", "env: MINE"}, 2, "--admin-token: invalid token: it has spaces"},
	)
}

// Commands use https:// addresses, verify the proxy's certificate, and say what to do if they do not trust it.
func TestAdminTLS(t *testing.T) {
	directory := alone(t)
	authority := securetest.NewAuthority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(`{"level": "info"}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(nil, "127.0.0.1")}}
	server.StartTLS()
	defer server.Close()
	level := []string{"log", "level", "--admin-token", "s3cret"}
	if status, out, messages := command(append(level, "--admin", server.URL, "--admin-ca", authority.File())...); status != 0 || out != "info\n" {
		t.Errorf("status %d, %q, %q", status, out, messages)
	}
	for says, args := range map[string][]string{
		"x509: certificate signed by unknown authority (use --admin-ca FILE if your own authority has signed its certificate)": {"--admin", server.URL},
		"--admin-ca: stat " + directory + "/none: no such file or directory":                                                   {"--admin", server.URL, "--admin-ca", directory + "/none"},
		"speaks TLS: use https:// for its address":                                                                             {"--admin", strings.TrimPrefix(server.URL, "https://")},
	} {
		if status, _, messages := command(append(level, args...)...); status == 0 || !strings.Contains(messages, says) {
			t.Errorf("%v: status %d, %q; want %s", args, status, messages, says)
		}
	}
	t.Setenv(authorityVariable, authority.File())
	t.Setenv(adminVariable, server.URL)
	if status, out, messages := command(level...); status != 0 || out != "info\n" {
		t.Errorf("by variables: status %d, %q, %q", status, out, messages)
	}
}

// A configuration that was made invalid by hand is named, and can be put right by a command.
func TestInvalidConfiguration(t *testing.T) {
	s := onDatabase(t).begin()
	store, err := stores.Open(s.database, config.Options{}) // without a check of profiles
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Apply(context.Background(), config.Change{Who: "carol", Mutations: []config.Mutation{
		{Verb: config.Add, Kind: config.KindProfile, Name: "mine", Values: config.Values{"yaml": "from: vosc"}},
	}})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.refuse(
		refusal{[]string{"backend", "ls"}, 1, "version 5 of the configuration is not valid: profile mine: yaml: line 1, column 7"},
		refusal{[]string{"backend", "set", "gpu-1", "--weight", "2"}, 1, "profile mine: yaml: line 1, column 7"},
		refusal{[]string{"backend", "set", "gpu-1", "--weight", "2", "--dry-run"}, 1, "version 5 of the configuration is not valid"},
	)
	same(t, "put right", s.must("profile set mine --file "+s.write("from: vosk")), "profile mine: yaml (1 line) -> (1 line)\nVersion 5 -> 6")
	s.must("backend set gpu-1 --weight 2", "config rollback 4")
}

// Writers at the same time, some through a proxy and some straight to its database: nothing is lost.
func TestConcurrentWriters(t *testing.T) {
	s := onProxy(t, open).begin()
	ways := [][]string{s.where, {"--database", s.database}}
	const writers, each = 4, 5
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				args := append([]string{"backend", "set", "gpu-1", "--label", fmt.Sprintf("w%d-%d=x", w, n)}, ways[w%len(ways)]...)
				status, _, messages := command(args...)
				for end := wstest.Deadline(); status == 1 && strings.Contains(messages, " locked for ") && time.Now().Before(end); {
					status, _, messages = command(args...) // as an operator would, on a machine that stood still
				}
				if status != 0 {
					t.Errorf("%v: status %d: %s", args, status, messages)
				}
			}
		})
	}
	all.Wait()
	store, err := stores.Open(s.database, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	snapshot, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := snapshot.Backend("gpu-1"); len(b.Labels) != 1+writers*each {
		t.Errorf("%d labels are there, of %d that were written", len(b.Labels)-1, writers*each)
	}
}
