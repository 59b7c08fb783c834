package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// stage is a configuration that commands work on: straight in a database, or through the admin API of a proxy that a test plays.
type stage struct {
	moves orders // to move sessions

	t        *testing.T
	database string
	socket   string
	where    []string   // flags that name it
	access   api.Access // the test sets it between two commands

	mu      sync.Mutex
	stats   func() api.Stats // guarded by mu; nil: the proxy knows nothing
	whole   func() api.Stats // guarded by mu; nil: the proxy has no fleet
	answers int              // guarded by mu: how often its own were asked for
}

// alone has commands see nothing of the machine that the tests run on.
func alone(t *testing.T) (directory string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "cli") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	t.Setenv("STATE_DIRECTORY", directory)
	for _, variable := range []string{adminVariable, tokenVariable, databaseVariable, settings.Variable("state-directory"), "SUDO_USER"} {
		t.Setenv(variable, "")
	}
	return directory
}

// onDatabase returns a stage whose commands use a new database.
func onDatabase(t *testing.T) *stage {
	t.Helper()
	database := filepath.Join(alone(t), "own.db")
	return &stage{t: t, database: database, where: []string{"--database", database}}
}

// onProxy returns a stage whose commands use the admin socket of a proxy.
func onProxy(t *testing.T, access admin.Access) *stage {
	t.Helper()
	return onProxyWith(t, access, remote.HandlerOptions{Profiles: config.CheckProfiles})
}

// onProxyHiding is onProxy with a proxy that hides secrets.
func onProxyHiding(t *testing.T, access admin.Access) *stage {
	t.Helper()
	return onProxyWith(t, access, remote.HandlerOptions{Profiles: config.CheckProfiles, Hides: func(*http.Request) bool { return true }})
}

func onProxyWith(t *testing.T, access admin.Access, o remote.HandlerOptions) *stage {
	t.Helper()
	s := onDatabase(t)
	store, err := stores.Open(s.database, config.Options{Profiles: config.CheckProfiles})
	if err != nil {
		t.Fatal(err)
	}
	s.socket = filepath.Join(filepath.Dir(s.database), "admin.sock")
	listener, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	handler := admin.Guard(access, remote.Handler(store, o))
	mux.Handle("/api/v1/config", handler)
	mux.Handle("/api/v1/config/", handler)
	mux.HandleFunc("GET "+api.StatsPath, s.answer)
	mux.HandleFunc("GET "+api.ProblemsPath, s.answerProblems)
	mux.HandleFunc("GET "+api.AccessPath, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s.access) })
	s.serveSessions(mux)
	s.serveMoves(mux)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query() // a proxy without a fleet answers for itself
		if query.Has(api.FleetParameter) && r.URL.Path == api.StatsPath && s.answerWhole(w) {
			return
		}
		query.Del(api.FleetParameter)
		r.URL.RawQuery = query.Encode()
		mux.ServeHTTP(w, r)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		_ = store.Close()
		server.Close()
	})
	s.where = []string{"--admin", "unix:" + s.socket}
	return s
}

func (s *stage) answer(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers++
	if s.stats == nil {
		http.Error(w, "the test says no", http.StatusInternalServerError)
		return
	}
	if err := json.NewEncoder(w).Encode(s.stats()); err != nil {
		s.t.Error(err)
	}
}

// playing sets what the proxy says of itself.
func (s *stage) playing(stats func() api.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = stats
}

// inFleet sets what the proxy says of its whole fleet.
func (s *stage) inFleet(whole func() api.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = whole
}

// answerWhole answers for the whole fleet; false if there is none.
func (s *stage) answerWhole(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole == nil {
		return false
	}
	now := s.whole()
	now.Fleet = cmp.Or(now.Fleet, &api.Fleet{Mode: api.FleetShare, Whole: true})
	if err := json.NewEncoder(w).Encode(now); err != nil {
		s.t.Error(err)
	}
	return true
}

// run runs a command there.
func (s *stage) run(args ...string) (status int, out, messages string) {
	return command(append(args, s.where...)...)
}

func command(args ...string) (status int, out, messages string) {
	var stdout, stderr bytes.Buffer
	status = Main(args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// must runs commands that must work, and returns what the last one prints. Each is one line, whose words have no spaces.
func (s *stage) must(lines ...string) (out string) {
	s.t.Helper()
	for _, line := range lines {
		status, printed, messages := s.run(strings.Fields(line)...)
		if status != 0 {
			s.t.Fatalf("%s: status %d: %s", line, status, messages)
		}
		out = printed
	}
	return out
}

// begin makes a configuration to work on: version 4.
func (s *stage) begin() *stage {
	s.t.Helper()
	s.must(
		"service add stt --path /v1/stt --profile vosk --who alice --why first",
		"backend add gpu-1 ws://10.0.0.5:2700 --connections 32 --label zone=a --who alice",
		"backend add gpu-2 ws://10.0.0.6:2700/?token=env:KEY1 --connections 32 --warm 8 --label zone=b --header X-Tenant=s3cret --who alice",
		"backend set gpu-1 --connections 48 --who bob",
	)
	return s
}

// write writes a file for a command to read.
func (s *stage) write(text string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.t.TempDir(), "input.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// refusal is a command that must fail, and what it says.
type refusal struct {
	args   []string
	status int
	says   string
}

// refuse runs commands that must fail, and print nothing but why.
func (s *stage) refuse(refusals ...refusal) {
	s.t.Helper()
	for _, c := range refusals {
		status, out, messages := s.run(c.args...)
		if status != c.status || out != "" || !strings.Contains(messages, c.says) {
			s.t.Errorf("%v: status %d, printed %q, said\n%s\nwant %d,\n%s", c.args, status, out, messages, c.status, c.says)
		}
		if strings.Contains(messages, "s3cret") {
			s.t.Errorf("%v: it shows a secret: %s", c.args, messages)
		}
	}
}

// same fails the test unless a text is as it should be.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

var open = admin.Access{Trusted: func(*http.Request) string { return api.RoleOperator }}

// everywhere runs a test on a database and on a proxy.
func everywhere(t *testing.T, test func(t *testing.T, s *stage)) {
	t.Run("database", func(t *testing.T) { test(t, onDatabase(t)) })
	t.Run("proxy", func(t *testing.T) {
		s := onProxy(t, open)
		s.playing(func() api.Stats { return api.Stats{} })
		test(t, s)
	})
}
