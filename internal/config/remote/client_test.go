package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// failing is a store that only fails.
type failing struct {
	config.Store
	err error
}

func (f failing) Load(context.Context) (*config.Snapshot, error) { return nil, f.err }

// Errors keep their kind and their words on the way.
func TestErrors(t *testing.T) {
	problems := config.Problems{{Place: "a.yaml:1:2", Kind: config.KindBackend, Name: "gpu-1", Field: "url", Text: "the value is missing"}, {Text: "b"}}
	since := config.Revision{
		Version: "2", At: time.Date(2026, 11, 21, 10, 0, 0, 5000, time.UTC), Who: "alice", Why: "w",
		Edits: config.Edits{{Action: config.Changed, Kind: config.KindBackend, Name: "gpu-1", Field: "warm", From: "1", To: "2"}},
	}
	conflict := &config.ConflictError{Expected: "1", Current: "2", Since: []config.Revision{since}}
	for _, k := range []struct {
		sent error
		is   error
	}{
		{fmt.Errorf("version 3 of the configuration is not valid: %w", problems), nil},
		{fmt.Errorf("again: %w", conflict), nil},
		{fmt.Errorf("%w: /etc/a.yaml", config.ErrReadOnly), config.ErrReadOnly},
		{fmt.Errorf("%w: 7", config.ErrNoVersion), config.ErrNoVersion},
		{fmt.Errorf("%w: 7", config.ErrSchema), config.ErrSchema},
		{errors.New("the disk is full"), nil},
	} {
		server := httptest.NewServer(Handler(failing{err: k.sent}, HandlerOptions{}))
		c, err := dial(server.URL, "", config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Load(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), k.sent.Error()) || (len(err.Error()) > len(k.sent.Error())) != (k.is == config.ErrReadOnly) || k.is != nil && !errors.Is(err, k.is) {
			t.Errorf("sent was %v, received %v", k.sent, err)
		}
		var gotProblems, wantProblems config.Problems
		if errors.As(k.sent, &wantProblems) && (!errors.As(err, &gotProblems) || !reflect.DeepEqual(gotProblems, wantProblems)) {
			t.Errorf("problems: %+v", gotProblems)
		}
		var gotConflict, wantConflict *config.ConflictError
		if errors.As(k.sent, &wantConflict) && (!errors.As(err, &gotConflict) || !reflect.DeepEqual(gotConflict, wantConflict)) {
			t.Errorf("conflict: %+v", gotConflict)
		}
		_ = c.Close()
		server.Close()
	}
}

// A server that cannot be reached, or is not a proxy, is named.
func TestUnreachable(t *testing.T) {
	closed := wstest.FreeAddress(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler("http://"+closed, http.StatusFound))
	defer elsewhere.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer page.Close()
	socket := filepath.Join(t.TempDir(), "none.sock")
	for address, says := range map[string]string{
		closed:           "no proxy answers at " + closed + ": connect: connection refused",
		"unix:" + socket: "no proxy answers at unix:" + socket + ": connect: no such file or directory",
		other.URL:        other.URL + ` answered "404 Not Found" to GET /api/v1/config: is it the admin API`,
		elsewhere.URL:    elsewhere.URL + ` answered "302 Found"`,
		page.URL:         "to GET /api/v1/config: invalid character",
	} {
		c, err := dial(address, "", config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %s", address, err, says)
		}
		_ = c.Close()
	}
}

// Tokens are sent, and what the proxy refuses says so.
func TestToken(t *testing.T) {
	server := httptest.NewServer(admin.Guard(admin.Access{Token: func() string { return "abc" }}, Handler(failing{err: config.ErrSchema}, HandlerOptions{})))
	defer server.Close()
	for token, says := range map[string]string{
		"":    "refused: the admin API needs a token",
		"abd": "refused: wrong token for the admin API",
		"abc": config.ErrSchema.Error(),
	} {
		c, err := dial(server.URL, token, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Load(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("token %q: %v; want %s", token, err, says)
		}
		_ = c.Close()
	}
}

// A watcher of a proxy that is started again sees what changed.
func TestRestart(t *testing.T) {
	database := filepath.Join(t.TempDir(), "config.db")
	first := serve(t, database, "", config.Options{})
	address := first.server.Listener.Addr().String()
	c, err := dial(address, "", config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	watcher := c.Watch(t.Context())
	<-watcher
	before, err := c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for unreachable := false; !unreachable; {
		<-watcher // which says that something is wrong
		_, err := c.Load(t.Context())
		unreachable = errors.As(err, new(*client.UnreachableError))
	}
	second := serve(t, database, "", config.Options{})
	defer second.Close()
	if _, err := second.store.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Add, Kind: config.KindService, Name: "stt"}}}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("another process has the port by now: %v", err)
	}
	third := &http.Server{Handler: second.server.Config.Handler, ReadHeaderTimeout: time.Second}
	go func() { _ = third.Serve(listener) }()
	defer third.Close()
	for range watcher {
		after, err := c.Load(t.Context())
		if err == nil && after.Version() != before.Version() {
			return
		}
	}
}
