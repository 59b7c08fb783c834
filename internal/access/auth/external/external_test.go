package external

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a checker that asks a server which the test plays.
type rig struct {
	*Checker
	asked atomic.Int32
	log   *bytes.Buffer
}

func newRig(t *testing.T, change func(*Options), handler http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{log: new(bytes.Buffer)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.asked.Add(1)
		handler(w, req)
	}))
	o := Options{URL: server.URL + "/check?secret=s3cret", AskAnonymous: true, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&o)
	}
	r.Checker = New(o)
	t.Cleanup(func() { r.Close(); server.Close() })
	return r
}

// attempt returns the attempt of a client with this credential and these fields in its header.
func attempt(t *testing.T, credential string, fields ...string) *auth.Attempt {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/v1/stt?lang=de", nil)
	request.Host = "stt.example.org"
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	return &auth.Attempt{Service: "stt", Credential: credential, Client: netip.MustParseAddr("192.0.2.7"), Request: request}
}

func answers200(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Wsbouncer-Tenant", "acme") }

// The server is asked with what the client has said, and with nothing that a client could pretend.
func TestQuestion(t *testing.T) {
	var got *http.Request
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		got = req
		w.Header().Set("X-Wsbouncer-Tenant", "acme")
		w.Header().Set("X-Wsbouncer-Subject", "user-7")
		w.Header().Set("X-Wsbouncer-Limits", "session-limit=3, byte-rate=64KiB/s")
		w.WriteHeader(http.StatusNoContent)
	})
	who, err := r.Authenticate(context.Background(), attempt(t, "k1", "Authorization", "Bearer k1", "Cookie", "a=b", "Origin", "https://example.org",
		"Connection", "Upgrade, X-Private", "X-Private", "1", "Upgrade", "websocket", "Sec-WebSocket-Key", "AAAA", "Sec-WebSocket-Protocol", "token, k1",
		"X-Forwarded-For", "10.0.0.1", "X-Real-IP", "10.0.0.1", "Forwarded", "for=10.0.0.1", "X-Original-URI", "/admin", "X-Wsbouncer-Tenant", "evil",
		"X-Wsbouncer-Service", "other", "X-Forwarded-Host", "evil.example", "Accept-Encoding", "gzip",
		"X_Real_IP", "10.0.0.1", "X_Original_URI", "/admin", "X-Original_Method", "POST", "x_wsbouncer_service", "other", "X.Forwarded.For", "10.0.0.1"))
	want := identity.Identity{
		Tenant: "acme", Subject: "user-7", Method: "external", Limits: limits.Limits{Sessions: 3, ByteRate: limits.Rate{N: 64 << 10, Per: time.Second}},
	}
	if err != nil || *who != want {
		t.Fatalf("%+v, %v", who, err)
	}
	if got.Method != http.MethodGet || got.URL.String() != "/check?secret=s3cret" {
		t.Errorf("asked with %s %s", got.Method, got.URL)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer k1", "Cookie": "a=b", "Origin": "https://example.org", "X-Forwarded-For": "192.0.2.7", "X-Real-Ip": "192.0.2.7",
		"X-Original-Uri": "/v1/stt?lang=de", "X-Original-Method": "GET", "X-Forwarded-Host": "stt.example.org", "X-Wsbouncer-Service": "stt", "User-Agent": "wsbouncer",
	} {
		if values := got.Header[name]; len(values) != 1 || values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
		delete(got.Header, name)
	}
	if len(got.Header) > 0 {
		t.Errorf("the question also has %v", got.Header)
	}
	if _, err := r.Authenticate(context.Background(), attempt(t, "from-the-query")); err != nil || got.Header.Get("Authorization") != "Bearer from-the-query" {
		t.Errorf("a credential from elsewhere: %v, Authorization %q", err, got.Header["Authorization"])
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header map[string]string
		denied int         // 0 if the server fails
		passed http.Header // what the client gets
		want   string
	}{
		"401":              {401, map[string]string{"WWW-Authenticate": `Bearer realm="x"`, "X-Internal": "1"}, 401, http.Header{"Www-Authenticate": {`Bearer realm="x"`}}, "answers 401 Unauthorized"},
		"403":              {403, map[string]string{"X-Internal": "1"}, 403, nil, "answers 403 Forbidden"},
		"429":              {429, map[string]string{"Retry-After": "7"}, 429, http.Header{"Retry-After": {"7"}}, "answers 429"},
		"404":              {404, nil, 0, nil, "404 Not Found, and none of 2xx"},
		"400":              {400, nil, 0, nil, "400 Bad Request, and none of 2xx"},
		"500":              {500, nil, 0, nil, "answers 500"},
		"redirect":         {302, map[string]string{"Location": "/login"}, 0, nil, "302 Found, and none of 2xx"},
		"bad tenant":       {200, map[string]string{"X-Wsbouncer-Tenant": strings.Repeat("x", 300)}, 0, nil, "X-Wsbouncer-Tenant: the tenant is longer than 256"},
		"unknown limit":    {200, map[string]string{"X-Wsbouncer-Limits": "sesion-limit=3"}, 0, nil, "session-limit"},
		"limit of a shape": {200, map[string]string{"X-Wsbouncer-Limits": "3"}, 0, nil, "use name=value"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
			})
			who, err := r.Authenticate(context.Background(), attempt(t, "k1"))
			denied := (*auth.Denied)(nil)
			switch isDenied := errors.As(err, &denied); {
			case who != nil || err == nil || !strings.Contains(err.Error(), c.want) || isDenied != (c.denied != 0):
				t.Errorf("%+v, %v", who, err)
			case isDenied && (denied.Code() != c.denied || denied.Missing || !reflect.DeepEqual(denied.Header, c.passed)):
				t.Errorf("%+v", denied)
			case strings.Contains(err.Error(), "s3cret"):
				t.Errorf("%v shows a secret", err)
			}
		})
	}
	r := newRig(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })
	_, err := r.Authenticate(context.Background(), attempt(t, ""))
	if denied := (*auth.Denied)(nil); !errors.As(err, &denied) || !denied.Missing {
		t.Errorf("without a credential: %v", err)
	}
}

// While the server is down, clients are refused or let in, as the service says. What a client can provoke lets no client in.
func TestFailure(t *testing.T) {
	for _, allow := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Allow = allow }, func(w http.ResponseWriter, req *http.Request) {
			switch req.Header.Get("Authorization") {
			case "Bearer down":
				w.WriteHeader(502)
			case "Bearer long":
				w.WriteHeader(431)
			case "Bearer dies":
				panic(http.ErrAbortHandler)
			case "Bearer tenant":
				w.Header().Set("X-Wsbouncer-Tenant", strings.Repeat("x", 300))
			}
		})
		for _, credential := range []string{"down", "dies", "long", "tenant", "a\x01b", "a\nX-Wsbouncer-Tenant: evil"} {
			who, err := r.Authenticate(context.Background(), attempt(t, credential))
			fails := credential == "down" || credential == "dies"
			if letIn := err == nil; letIn != (allow && fails) || letIn && *who != (identity.Identity{Method: "external"}) {
				t.Errorf("allow %v, %q: %+v, %v", allow, credential, who, err)
			}
			if denied := (*auth.Denied)(nil); strings.HasPrefix(credential, "a") && (!errors.As(err, &denied) || denied.Code() != 400) {
				t.Errorf("%q: %v", credential, err)
			}
		}
		if log := r.log.String(); strings.Count(log, "the authentication server fails") != 1 || strings.Contains(log, "let in without") != allow || strings.Contains(log, "s3cret") {
			t.Errorf("the log says:\n%s", log)
		}
	}
}

// What a malformed answer repeats of the client's request gets into no error, and lets no client in: the client may have provoked it.
func TestMalformedAnswer(t *testing.T) {
	for name, answer := range map[string]string{
		"no colon":    "HTTP/1.1 200 OK\r\nyou said %s\r\n\r\n",
		"status line": "%s\r\n\r\n",
		"status":      "HTTP/1.1 %s OK\r\n\r\n",
		"version":     "HTTP/%s 200 OK\r\n\r\n",
		"length":      "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"too long":    "HTTP/1.1 200 OK\r\nX-Said: %s" + strings.Repeat("x", 1<<20) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Allow = true }, func(w http.ResponseWriter, req *http.Request) {
				nc, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				_, _ = fmt.Fprintf(nc, answer, req.Header.Get("Authorization"))
			})
			who, err := r.Authenticate(context.Background(), attempt(t, "CANARY"))
			if bad := (*badAnswer)(nil); who != nil || !errors.As(err, &bad) || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%+v, %v", who, err)
			}
			if log := r.log.String(); strings.Contains(log, "CANARY") {
				t.Errorf("the log says:\n%s", log)
			}
		})
	}
}

// A server that does not answer holds a client up for the time-out, and after some failures not at all.
func TestCircuit(t *testing.T) {
	hang := make(chan struct{})
	r := newRig(t, func(o *Options) { o.Timeout = 20 * time.Millisecond }, func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-hang:
		case <-req.Context().Done():
		}
	})
	defer close(hang)
	for range tolerated {
		if _, err := r.Authenticate(context.Background(), attempt(t, "k1")); err == nil || !strings.Contains(err.Error(), "no answer within 20ms") {
			t.Fatalf("%v", err)
		}
	}
	asked := r.asked.Load()
	r.circuit.mu.Lock()
	r.circuit.until = r.circuit.until.Add(time.Hour) // longer than the test takes, whatever the machine does
	r.circuit.mu.Unlock()
	for range 100 {
		if _, err := r.Authenticate(context.Background(), attempt(t, "k1")); err == nil || !strings.Contains(err.Error(), "not asked for a moment") {
			t.Fatalf("%v", err)
		}
	}
	if r.asked.Load() != asked {
		t.Errorf("the server was asked %d times meanwhile", r.asked.Load()-asked)
	}
}

// The circuit by itself, with times of the test's choice.
func TestCircuitRests(t *testing.T) {
	c := circuit{log: slog.New(slog.DiscardHandler)}
	now := time.Now()
	fail := func() {
		t.Helper()
		if err := c.enter(now); err != nil {
			t.Fatal(err)
		}
		c.leave(netip.Addr{}, errors.New("refused"), true, now)
	}
	for range tolerated {
		fail()
	}
	for _, rest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, longestRest, longestRest} {
		if now = now.Add(rest - 1); c.enter(now) == nil {
			t.Fatalf("asked %v after the failure", rest-1)
		}
		if now = now.Add(1); c.enter(now) != nil {
			t.Fatalf("not asked %v after the failure", rest)
		}
		if c.enter(now) == nil {
			t.Fatal("two questions try at once")
		}
		c.leave(netip.Addr{}, errors.New("refused"), true, now)
	}
	now = now.Add(longestRest)
	if err := c.enter(now); err != nil {
		t.Fatal(err)
	}
	c.leave(netip.Addr{}, context.Canceled, false, now) // the client left: that says nothing, and the next one tries
	if err := c.enter(now); err != nil {
		t.Fatal(err)
	}
	c.leave(netip.Addr{}, nil, true, now)
	for range tolerated {
		fail()
	}
	if c.until != now.Add(firstRest) {
		t.Errorf("rests for %v after a success", c.until.Sub(now))
	}
}

// One client whose questions make the server fail does not close the service to others, and does not keep it closed. Several clients' failures are the
// server's.
func TestProvokedFailures(t *testing.T) {
	broken := atomic.Bool{}
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		switch by := req.Header.Get("Authorization"); {
		case broken.Load() || by == "Bearer 500":
			w.WriteHeader(http.StatusInternalServerError)
		case by == "Bearer end":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("X-Wsbouncer-Tenant", "acme")
		}
	})
	from := func(credential, address string) error {
		a := attempt(t, credential)
		a.Client = netip.MustParseAddr(address)
		_, err := r.Authenticate(context.Background(), a)
		return err
	}
	for _, bad := range []string{"500", "end"} {
		for range 3 * tolerated {
			if err := from(bad, "192.0.2.7"); err == nil || strings.Contains(err.Error(), "not asked") {
				t.Fatalf("the bad client: %v", err)
			}
		}
		if err := from("good", "198.51.100.1"); err != nil {
			t.Errorf("another client: %v", err)
		}
	}
	broken.Store(true)
	for i := range tolerated {
		_ = from("good", fmt.Sprintf("198.51.100.%d", i))
	}
	if err := from("good", "198.51.100.9"); err == nil || !strings.Contains(err.Error(), "not asked for a moment") {
		t.Errorf("after failures of several clients: %v", err)
	}
	broken.Store(false)
	r.circuit.mu.Lock()
	r.circuit.until = time.Now()
	r.circuit.mu.Unlock()
	if err := from("500", "198.51.100.1"); err == nil || strings.Contains(err.Error(), "not asked") {
		t.Errorf("one whose failure was counted tries: %v", err)
	}
	if err := from("good", "198.51.100.9"); err != nil {
		t.Errorf("its failure keeps the service closed: %v", err)
	}
}

// A client that leaves says nothing about the server.
func TestClientLeaves(t *testing.T) {
	arrived := make(chan struct{})
	r := newRig(t, nil, func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-req.Context().Done()
	})
	for range 2 * tolerated {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-arrived
			cancel()
		}()
		if _, err := r.Authenticate(ctx, attempt(t, "k1")); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
	}
	if r.circuit.failed != 0 || r.log.Len() > 0 {
		t.Errorf("%d failures, the log says %q", r.circuit.failed, r.log)
	}
}

// An answer holds for the same question, and not longer than it says.
func TestCache(t *testing.T) {
	control, status := "", 200
	r := newRig(t, func(o *Options) { o.Cache = time.Hour }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", control)
		w.WriteHeader(status)
	})
	ask := func(a *auth.Attempt) (questions int32) {
		t.Helper()
		before := r.asked.Load()
		for range 3 {
			if _, err := r.Authenticate(context.Background(), a); (err == nil) != (status == 200) {
				t.Fatal(err)
			}
		}
		return r.asked.Load() - before
	}
	other := attempt(t, "k1")
	other.Request.URL.Path = "/v1/tts"
	query := attempt(t, "k1")
	query.Request.URL.RawQuery = "model=premium"
	client := attempt(t, "k1")
	client.Client = netip.MustParseAddr("192.0.2.8")
	host := attempt(t, "k1")
	host.Request.Host = "other.example.org"
	authorized := attempt(t, "k1", "Authorization", "Basic YTpi")
	for _, c := range []struct {
		name    string
		attempt *auth.Attempt
		control string
		status  int
		want    int32
	}{
		{"first", attempt(t, "k1"), "", 200, 1},
		{"again", attempt(t, "k1"), "", 200, 0},
		{"another credential", attempt(t, "k2"), "", 200, 1},
		{"another path", other, "", 200, 1},
		{"another host", host, "", 200, 1},
		{"Authorization beside the credential", authorized, "", 200, 1},
		{"another query", query, "", 200, 1},
		{"another cookie", attempt(t, "k1", "Cookie", "model=premium"), "", 200, 1},
		{"another field", attempt(t, "k1", "X-Model", "premium"), "", 200, 1},
		{"another client", client, "", 200, 1},
		{"no credential", attempt(t, ""), "", 200, 3},
		{"not to be stored", attempt(t, "k3"), "private, No-Store", 200, 3},
		{"for no time", attempt(t, "k4"), "max-age=0", 200, 3},
		{"for a minute", attempt(t, "k5"), "max-age=60", 200, 1},
		{"turned away", attempt(t, "k6"), "", 403, 1},
		{"too often", attempt(t, "k7"), "", 429, 3},
	} {
		control, status = c.control, c.status
		if got := ask(c.attempt); got != c.want {
			t.Errorf("%s: %d questions, want %d", c.name, got, c.want)
		}
	}
	keyFor := func(credential string) [sha256.Size]byte {
		header, err := question(attempt(t, credential))
		if err != nil {
			t.Fatal(err)
		}
		return keyOf(header)
	}
	key, k6, k5 := keyFor("k1"), keyFor("k6"), keyFor("k5")
	knows := func(key [sha256.Size]byte, after time.Duration) bool {
		_, ok := r.answers.Find(key, time.Now().Add(after))
		return ok
	}
	if !knows(key, 59*time.Minute) || knows(key, time.Hour+time.Minute) {
		t.Error("an answer does not hold for auth-cache")
	}
	if knows(k5, 61*time.Second) || knows(k6, maxRefusalHolds+time.Second) {
		t.Error("an answer holds for too long")
	}
}

// A client that gives nothing does not guess. One that gives what only the server can judge does.
func TestMissing(t *testing.T) {
	r := newRig(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	for _, c := range []struct {
		attempt *auth.Attempt
		missing bool
	}{
		{attempt(t, ""), true},
		{attempt(t, "k1"), false},
		{attempt(t, "", "Authorization", "Basic YTpi"), false},
	} {
		var denied *auth.Denied
		if _, err := r.Authenticate(context.Background(), c.attempt); !errors.As(err, &denied) || denied.Missing != c.missing {
			t.Errorf("%q, %v: %+v", c.attempt.Credential, c.attempt.Request.Header, err)
		}
	}
}

// At most maxParallel questions are asked at once, and the others wait for their turn.
func TestParallel(t *testing.T) {
	var now, most atomic.Int32
	release, full := make(chan struct{}), make(chan struct{}, 2*maxParallel)
	r := newRig(t, nil, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if most.Store(max(most.Load(), n)); n == maxParallel {
			full <- struct{}{}
		}
		<-release
	})
	var clients sync.WaitGroup
	for i := range maxParallel + 40 {
		clients.Go(func() {
			a := attempt(t, "k1")
			a.Client = netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 4)})
			if _, err := r.Authenticate(context.Background(), a); err != nil {
				t.Error(err)
			}
		})
	}
	<-full
	close(release)
	clients.Wait()
	if most.Load() > maxParallel {
		t.Errorf("%d questions at once", most.Load())
	}
}

func BenchmarkCached(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(answers200))
	defer server.Close()
	c := New(Options{URL: server.URL, Timeout: time.Second, Cache: time.Hour, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	a := &auth.Attempt{Credential: "k1", Request: httptest.NewRequest(http.MethodGet, "/", nil)}
	for b.Loop() {
		if _, err := c.Authenticate(context.Background(), a); err != nil {
			b.Fatal(err)
		}
	}
}

// When too many clients wait already, the server is not asked, the client hears so even if failures let clients in, and the server is not
// taken to fail.
func TestTooManyWait(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Allow = true }, answers200)
	crowded := &auth.Denied{Status: http.StatusServiceUnavailable, Err: errors.New("crowded")}
	for range 2 * tolerated {
		a := attempt(t, "k1")
		a.Waits = func() error { return crowded }
		if _, err := r.Authenticate(context.Background(), a); !errors.Is(err, crowded) {
			t.Fatalf("got %v", err)
		}
	}
	if n := r.asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	if who, err := r.Authenticate(context.Background(), attempt(t, "k1")); err != nil || who.Tenant != "acme" {
		t.Errorf("afterwards: %+v, %v", who, err)
	}
}

// panicking is a transport that panics.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

// A panic while one question finds out whether the server answers again does not keep all later ones from being asked.
func TestPanicWhileTrying(t *testing.T) {
	r := newRig(t, nil, func(http.ResponseWriter, *http.Request) {})
	r.circuit.failed = tolerated
	r.client.Transport = panicking{}
	func() {
		defer func() { _ = recover() }()
		_, _ = r.Authenticate(t.Context(), attempt(t, "secret"))
		t.Error("nothing has panicked")
	}()
	r.client.Transport = nil
	defer r.client.CloseIdleConnections()
	if _, err := r.Authenticate(t.Context(), attempt(t, "secret")); err != nil {
		t.Errorf("the server is no longer asked: %v", err)
	}
}
