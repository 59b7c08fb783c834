package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The audit log keeps the latest actions and shows the newest first.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	a := NewAudit(slog.New(slog.NewTextHandler(&log, nil)))
	a.now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600)) }
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r = withCaller(r, &Caller{Role: api.RoleOperator, Name: thisMachine, From: fromOf(r)})
	if actions, next := a.Since(0); len(actions) != 0 || next != 0 {
		t.Errorf("at the start: %v, %d", actions, next)
	}
	a.Note(r, "pause", "stt", api.Order{Who: "alice", Why: "new model"}, "3 clients wait")
	got, next := a.Since(0)
	want := api.Action{
		Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC), Action: "pause", Target: "stt", Who: "alice", Why: "new model",
		Result: api.ResultDone, Role: api.RoleOperator, Caller: thisMachine, From: r.RemoteAddr, Detail: "3 clients wait",
	}
	if len(got) != 1 || got[0] != want || next != 1 {
		t.Errorf("got %+v, %d; want %+v, 1", got, next, want)
	}
	const line = `level=INFO msg="operator action" action=pause target=stt result=done who=alice why="new model" role=operator caller="this machine" from=` + "192.0.2.1:1234" + ` detail="3 clients wait"`
	if !strings.Contains(log.String(), line) {
		t.Errorf("logged %q; want %q", log.String(), line)
	}
	for i := range 2 * auditSize {
		a.Note(r, "kill", strconv.Itoa(i), api.Order{}, "")
	}
	got, next = a.Since(0)
	if len(got) != auditSize || got[0].Target != strconv.Itoa(auditSize) || got[auditSize-1].Target != strconv.Itoa(2*auditSize-1) || next != 2*auditSize+1 {
		t.Errorf("after many: %d from %s, next %d", len(got), got[0].Target, next)
	}
	if later, _ := a.Since(next - 2); len(later) != 2 || later[1].Target != strconv.Itoa(2*auditSize-1) {
		t.Errorf("the last two: %+v", later)
	}
	if none, _ := a.Since(next); len(none) != 0 {
		t.Errorf("after the last: %+v", none)
	}
	w := httptest.NewRecorder()
	handle(a.routes(), Access{Trusted: func(*http.Request) string { return api.RoleOperator }}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+api.AuditPath, http.NoBody))
	var shown []api.Action
	if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(shown)
	if !slices.Equal(shown, got) {
		t.Errorf("shown are %d actions, the first of %s", len(shown), shown[0].Target)
	}
}

// The audit log says which way an order came, and over a socket which user of the machine gave it.
func TestCaller(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	if got := fromOf(r) + ", " + localName(r); got != "192.0.2.1:1234, this machine" {
		t.Errorf("over TCP: %q", got)
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(fromOf(r) + ", " + localName(r)))
	}), Limits{}, slog.New(slog.DiscardHandler))
	socket := t.TempDir() + "/a"
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skipf("the path is too long for a socket: %v", err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	response, err := client.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil || !strings.HasPrefix(body.String(), "admin socket, ") {
		t.Errorf("over a socket: %q, %v", body.String(), err)
	}
	if uid := strconv.Itoa(os.Getuid()); runtime.GOOS == "linux" && !strings.Contains(body.String(), "uid "+uid) {
		t.Errorf("over a socket: %q; want the user %s", body.String(), uid)
	}
}
