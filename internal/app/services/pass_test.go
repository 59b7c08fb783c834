package services

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// goodKey is the key that servers ask for.
const goodKey = "Bearer S3CRET"

// greeting is what a server says at connect.
type greeting struct {
	kind websocket.MessageType
	text string
}

// heard is what a server was told in a handshake.
type heard struct {
	Connection int // which connection to the server it is, counted from 1
	Target     string
	Header     http.Header
}

// listening is a server that answers each message with what it was told in the handshake. It refuses those without the key.
type listening struct {
	*httptest.Server
	field  string // the header field to ask for a key in; empty for none
	grants []string
	greets *greeting // what is sent at connect; nil for nothing

	mu          sync.Mutex
	connections int // guarded by mu
	refused     int // guarded by mu
}

func startListening(t *testing.T, field string, grants ...string) *listening {
	t.Helper()
	s := &listening{field: field, grants: grants}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *listening) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" { // it publishes nothing
		http.NotFound(w, r)
		return
	}
	if s.field != "" && r.Header.Get(s.field) != goodKey {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		http.Error(w, "a key is needed", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	s.connections++ // before the proxy can know that it has the connection
	answer, _ := json.Marshal(heard{s.connections, r.RequestURI, r.Header})
	s.mu.Unlock()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: s.grants, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	if s.greets != nil {
		if err := conn.Write(r.Context(), s.greets.kind, []byte(s.greets.text)); err != nil {
			return
		}
	}
	for {
		if _, _, err := conn.Read(r.Context()); err != nil {
			return
		}
		if err := conn.Write(r.Context(), websocket.MessageText, answer); err != nil {
			return
		}
	}
}

func (s *listening) counts() (connections, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections, s.refused
}

// url is the server's address with a path and query.
func (s *listening) url(target string) string {
	return "ws" + strings.TrimPrefix(s.URL, "http") + target
}

// say begins a session as clients' libraries do, and returns what the server was told, and what the client was granted.
func (r *rig) say(target string, options *websocket.DialOptions) (*websocket.Conn, heard, string) {
	r.t.Helper()
	conn, _, err := websocket.Dial(r.t.Context(), "ws://"+r.address+target, options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, r.hear(conn), conn.Subprotocol()
}

// hear asks the server of a session what it was told.
func (r *rig) hear(conn *websocket.Conn) (h heard) {
	r.t.Helper()
	if err := conn.Write(r.t.Context(), websocket.MessageText, []byte("?")); err != nil {
		r.t.Fatal(err)
	}
	_, text, err := conn.Read(r.t.Context())
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// debugTo writes all lines of a log to a text.
func debugTo(text *logtest.Text) slog.Handler {
	return slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug})
}

// What a service passes reaches its server as the client wrote it, and is told nowhere else.
func TestPass(t *testing.T) {
	t.Parallel()
	log := new(logtest.Text)
	r := newLoggedRig(t, debugTo(log))
	server := startListening(t, "", "token")
	r.apply(func(c *config.Content) {
		putService(c, "v1", func(s *config.Service) {
			s.Profile, s.Pass = "one-shot", []string{"path", "query", "header:Authorization", "header:x-tag", "subprotocol"}
		})
		putBackend(c, "a", "v1", server.url("/base/?fixed=1"), 3, nil)
	})
	r.idle("a", 3)
	conn, got, granted := r.say("/v1/listen/a%2Fb%20c//d/?b=2&a=%41+x&b=3;y&&flag&k=S3CRET-query", &websocket.DialOptions{
		HTTPHeader: http.Header{
			"Authorization": {"Token S3CRET-header"}, "X-Tag": {"one", "two, three"}, "X-Other": {"not to be passed"}, "Cookie": {"S3CRET-cookie"},
		},
		Subprotocols: []string{"token", "S3CRET-subprotocol"},
	})
	if want := "/base/listen/a%2Fb%20c//d/?fixed=1&b=2&a=%41+x&b=3;y&&flag&k=S3CRET-query"; got.Target != want {
		t.Errorf("the server was asked for %q; want %q", got.Target, want)
	}
	for name, want := range map[string][]string{
		"Authorization": {"Token S3CRET-header"}, "X-Tag": {"one", "two, three"}, "Sec-Websocket-Protocol": {"token, S3CRET-subprotocol"},
		"X-Other": nil, "Cookie": nil,
	} {
		if !slices.Equal(got.Header[name], want) {
			t.Errorf("%s: %q; want %q", name, got.Header[name], want)
		}
	}
	if granted != "token" {
		t.Errorf("the client was granted %q", granted)
	}
	all, err := json.Marshal(r.stats())
	if err != nil || strings.Contains(string(all), "S3CRET") {
		t.Errorf("the statistics tell a secret, or %v: %s", err, all)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	r.settled()
	wstest.Eventually(t, "the session's end is logged", func() bool { return len(log.With("session ended")) == 1 })
	if lines := log.With("S3CRET"); len(lines) > 0 {
		t.Errorf("the log tells a secret: %q", lines)
	}
	if lines := log.With("than this service passes"); len(lines) > 0 {
		t.Errorf("what was passed is said to be dropped: %q", lines)
	}
	if b := r.backend("a"); b.Totals.DialFailed > 0 {
		t.Errorf("%+v", b.Totals)
	}

	// Who says nothing of it gets a connection that was dialed ahead.
	r.settled()
	before, _ := server.counts()
	_, got, _ = r.say("/v1", nil)
	if got.Connection > before || got.Target != "/base/?fixed=1" {
		t.Errorf("%+v, of %d connections", got, before)
	}
}

// Clients that bring keys never share a connection, not even one after the other, and not with those that bring none, although the
// profile uses connections again.
func TestPassedAreAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startListening(t, "")
	r.apply(func(c *config.Content) {
		putService(c, "v1", func(s *config.Service) { s.Pass = []string{"header:Authorization", "query:key"} })
		putBackend(c, "a", "v1", server.url("/"), 3, nil)
	})
	r.idle("a", 3)
	keyOf := make(map[int]string) // by connection
	for i := range 12 {
		key := []string{"", "alice", "bob", "alice"}[i%4]
		options, target := &websocket.DialOptions{}, "/v1"
		if key != "" && i%2 == 0 {
			options.HTTPHeader = http.Header{"Authorization": {key}}
		} else if key != "" {
			target += "?key=" + key
		}
		conn, got, _ := r.say(target, options)
		if said := got.Header.Get("Authorization") + strings.TrimPrefix(got.Target, "/"); said != key && said != "?key="+key {
			t.Errorf("client %d with %q was served as %q", i, key, said)
		}
		if other, again := keyOf[got.Connection]; again && (key != "" || other != "") {
			t.Errorf("client %d with %q got connection %d of %q", i, key, got.Connection, other)
		}
		keyOf[got.Connection] = key
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	r.settled()
}

// What is dropped is told to the log, each kind once for each service, and never its value.
func TestDroppedIsSaid(t *testing.T) {
	t.Parallel()
	log := new(logtest.Text)
	r := newLoggedRig(t, debugTo(log))
	server := startListening(t, "", "binary")
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", server.url("/a"), 2, nil)
		putService(c, "tts", func(s *config.Service) { s.Subprotocol = "binary" })
		putBackend(c, "b", "tts", server.url("/b"), 2, nil)
	})
	say := func(target string, options *websocket.DialOptions) {
		t.Helper()
		conn, _, _ := r.say(target, options)
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	const said = "says more than this service passes"
	expect := func(n int, parts ...string) {
		t.Helper()
		lines := log.With(said)
		if len(lines) != n {
			t.Fatalf("the log has %q; want %d lines", lines, n)
		}
		for _, part := range parts {
			if !strings.Contains(lines[n-1], part) {
				t.Errorf("the log says %q; want %s", lines[n-1], part)
			}
		}
	}
	say("/stt", nil)
	expect(0)
	for range 2 {
		say("/stt?model=S3CRET", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"S3CRET"}}})
		expect(1, "level=WARN", "service=stt", `dropped="query, Authorization"`, `"--pass query,header:Authorization"`)
	}
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.IdleTimeout = 1 << 40 }) })
	for range 2 {
		say("/stt?model=S3CRET", &websocket.DialOptions{Subprotocols: []string{"token", "S3CRET"}})
		expect(2, "dropped=subprotocols", `"--pass subprotocol"`, "browsers fail with code 1006")
	}
	say("/tts", &websocket.DialOptions{Subprotocols: []string{"binary"}})
	expect(2)
	say("/tts", &websocket.DialOptions{Subprotocols: []string{"binary", "S3CRET"}})
	expect(3, "service=tts", "dropped=subprotocols")
	if lines := log.With(said); strings.Contains(lines[2], "1006") {
		t.Errorf("the client was granted one, and the log says %q", lines[2])
	}
	if lines := log.With("S3CRET"); len(lines) > 0 {
		t.Errorf("the log tells a secret: %q", lines)
	}
}

// A client that offers just what the server is asked for anyway shares connections; one that offers more is passed on as it is.
func TestPassedSubprotocols(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startListening(t, "", "realtime")
	r.apply(func(c *config.Content) {
		putService(c, "v1", func(s *config.Service) { s.Pass, s.Subprotocol = []string{"subprotocol"}, "realtime" })
		putBackend(c, "a", "v1", server.url("/"), 2, nil)
	})
	r.idle("a", 2)
	for _, c := range []struct {
		offer   []string
		told    string
		granted string
		shared  bool
	}{
		{[]string{"realtime"}, "realtime", "realtime", true},
		{nil, "realtime", "", true},
		{[]string{"realtime", "key.K"}, "realtime, key.K", "realtime", false},
		{[]string{"other"}, "other", "", false},
	} {
		conn, got, granted := r.say("/v1", &websocket.DialOptions{Subprotocols: c.offer})
		if told := got.Header.Get("Sec-Websocket-Protocol"); told != c.told || granted != c.granted || got.Connection <= 2 != c.shared {
			t.Errorf("%q: connection %d was told %q, and the client got %q; want %+v", c.offer, got.Connection, told, granted, c)
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
		r.settled()
	}
}

// Paths are passed by whole segments, to the service of the longest one, and never lead out of the server's path.
func TestPassedPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startListening(t, "")
	r.apply(func(c *config.Content) {
		for name, path := range map[string]string{"one": "/v1", "two": "/v1/speak", "exact": "/v1/exact", "all": "/"} {
			putService(c, name, func(s *config.Service) {
				if s.Path = path; name != "exact" {
					s.Pass = []string{"path"}
				}
			})
			putBackend(c, name, name, server.url("/"+name), 2, nil)
		}
	})
	for path, want := range map[string]string{
		"/v1":               "/one",
		"/v1/":              "/one/",
		"/v1/listen":        "/one/listen",
		"/v1/speak":         "/two",
		"/v1/speak/x%3Fy":   "/two/x%3Fy",
		"/v1/speakers":      "/one/speakers",
		"/v1/exact":         "/exact",
		"/v1/exact/x":       "/one/exact/x",
		"/v1/%73peak/x":     "/two/x", // the same path as /v1/speak/x
		"/v1x":              "/all/v1x",
		"/":                 "/all",
		"/v1/a...b/..c/%2E": "400",
		"/v1/../admin":      "400",
		"/v1/x/%2e%2E/y":    "400",
		"/v1/x/..%2Fy":      "400",
		"/v1/x/..%5Cy":      "400",
		"/v1/x/..;a=b/y":    "400",
		"/v1/x/.":           "400",
		"/v1%2Fspeak/x":     "404", // a slash that is part of a name
	} {
		if len(want) == 3 {
			if _, status := r.ask(path, ""); fmt.Sprint(status) != want {
				t.Errorf("%s: status %d; want %s", path, status, want)
			}
			continue
		}
		conn, got, _ := r.say(path, nil)
		if got.Target != want {
			t.Errorf("%s: the server was asked for %q; want %q", path, got.Target, want)
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
}
