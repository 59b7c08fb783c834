package handshake

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// The error names what keeps a server from being reached by TLS.
func TestDialTLSFails(t *testing.T) {
	upgrading := httptest.NewUnstartedServer(http.NotFoundHandler())
	defer upgrading.Close()
	ca := startTLS(t, upgrading)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	missing := filepath.Join(t.TempDir(), "ca.pem")
	for name, c := range map[string]struct {
		server   *httptest.Server
		settings secure.Settings
		swap     string // scheme to use in place of the right one
		want     string
	}{
		"no upgrade":        {upgrading, secure.Settings{CA: ca}, "", "404 Not Found"},
		"not trusted":       {upgrading, secure.Settings{}, "", "TLS handshake: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"other name":        {upgrading, secure.Settings{CA: ca, ServerName: "gpu-1"}, "", "gpu-1"},
		"trusted as it is":  {upgrading, secure.Settings{ServerName: "gpu-1", InsecureSkipVerify: true}, "", "404 Not Found"},
		"no file":           {upgrading, secure.Settings{CA: missing}, "", "tls-ca: stat " + missing},
		"wss of a ws":       {plain, secure.Settings{CA: ca}, "wss", "server does not speak TLS"},
		"ws of a wss (400)": {upgrading, secure.Settings{}, "ws", "400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			target := targetOf(t, c.server, "/")
			if c.swap != "" {
				var err error
				if target, err = ParseTarget(c.swap + "://" + target.Address()); err != nil {
					t.Fatal(err)
				}
			}
			if target.Secure() {
				target.SetTLS(c.settings)
			}
			if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// A server that accepts the connection but says nothing to TLS is given up when the context ends.
func TestDialTLSWithoutAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	target := parsed(t, "wss://"+listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := target.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A file that was good before, and is bad now, keeps no dial from its server, and is logged once.
func TestBadFilesWhileDialing(t *testing.T) {
	requests := make(chan *http.Request, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		http.NotFound(w, r)
	}))
	defer server.Close()
	ca, token := startTLS(t, server), filepath.Join(t.TempDir(), "token")
	var text bytes.Buffer
	parse := func() *Target {
		target := targetOf(t, server, "/?key=file")
		target.SetTLS(secure.Settings{CA: ca})
		target.Log = slog.New(slog.NewTextHandler(&text, nil))
		target.Resolve = func() (http.Header, error) {
			value, err := os.ReadFile(token)
			return http.Header{"X-Token": {string(value)}}, err
		}
		target.ResolveQuery = func(string) (string, error) {
			value, err := os.ReadFile(token)
			return "key=" + string(value), err
		}
		return target
	}
	target := parse()
	if err := os.WriteFile(token, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(when string) (logged string) {
		t.Helper()
		next := parse() // as for a changed setting of the backend
		next.TakeOver(target, true)
		target = next
		copied := *target // as for a changed option
		_, err := copied.With(ClientPart{}).Dial(t.Context())
		if status := (*StatusError)(nil); !errors.As(err, &status) {
			t.Fatalf("%s: %v", when, err)
		}
		if r := <-requests; r.Header.Get("X-Token") != "one" || r.URL.RawQuery != "key=one" {
			t.Errorf("%s: the server got %v?%s", when, r.Header, r.URL.RawQuery)
		}
		defer text.Reset()
		return text.String()
	}
	if logged := dial("at first"); logged != "" {
		t.Errorf("log: %s", logged)
	}
	if err := errors.Join(os.WriteFile(ca, good[:len(good)/2], 0o600), os.Remove(token)); err != nil {
		t.Fatal(err)
	}
	if logged := dial("with bad files"); strings.Count(logged, "files for dialing are bad") != 3 || !strings.Contains(logged, "tls-ca: "+ca) {
		t.Errorf("log: %s", logged)
	}
	if logged := dial("again"); logged != "" {
		t.Errorf("log: %s", logged)
	}
	for what, other := range map[string]func() *Target{
		"headers": func() *Target { next := parse(); next.TakeOver(target, false); return next },
		"query": func() *Target {
			next := targetOf(t, server, "/?key=other")
			next.SetTLS(secure.Settings{CA: ca})
			next.Resolve, next.ResolveQuery = target.Resolve, target.ResolveQuery
			next.TakeOver(target, true)
			return next
		},
		"certificate's name": func() *Target {
			next := parse()
			next.SetTLS(secure.Settings{CA: ca, ServerName: "other.example"})
			next.TakeOver(target, true)
			return next
		},
	} {
		if _, err := other().Dial(t.Context()); err == nil || errors.As(err, new(*StatusError)) {
			t.Errorf("with other %s: %v", what, err)
		}
	}
	if err := errors.Join(os.WriteFile(ca, good, 0o600), os.WriteFile(token, []byte("one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if logged := dial("with good files"); strings.Count(logged, "in order again") != 3 {
		t.Errorf("log: %s", logged)
	}
}

// Fields are resolved for each dial, and replace those of the same names.
func TestResolvedHeader(t *testing.T) {
	requests := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header
		http.NotFound(w, r)
	}))
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "token")
	target := targetOf(t, server, "/").With(ClientPart{Header: []Field{{"Authorization", "Token of-the-client"}, {"X-Client", "7"}}})
	target.Resolve = func() (http.Header, error) {
		token, err := os.ReadFile(secret)
		return http.Header{"authorization": {"Bearer " + string(token)}, "X-Zone": {"a", "b"}}, err
	}
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "header: open "+secret) {
		t.Errorf("%v; want that the file is missing", err)
	}
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(secret, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := target.Dial(t.Context())
		if status := (*StatusError)(nil); !errors.As(err, &status) {
			t.Fatal(err)
		}
		got := <-requests
		for name, want := range map[string]string{"Authorization": "Bearer " + token, "X-Zone": "a|b", "X-Client": "7"} {
			if values := strings.Join(got[name], "|"); values != want {
				t.Errorf("%s: %q; want %q", name, values, want)
			}
		}
	}
}

// What would change the request itself is refused before anything is sent, and what may be a secret is not shown.
func TestResolvedHeaderRefused(t *testing.T) {
	target := parsed(t, "ws://127.0.0.1:1")
	for name, want := range map[string]string{
		"Host": "the proxy sets Host itself", "upgrade": "the proxy sets upgrade", "Sec-WebSocket-Key": "the proxy sets", "sec-websocket-x": "the proxy sets",
		"Content-Length": "the proxy sets", "Transfer-Encoding": "the proxy sets", "CONNECTION": "the proxy sets",
		"": "HTTP does not allow", "a b": "HTTP does not allow", "a:b": "HTTP does not allow", "naïve": "HTTP does not allow", "a\r\nb": "HTTP does not allow",
	} {
		target.Resolve = func() (http.Header, error) { return http.Header{name: {"x"}}, nil }
		if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", name, err, want)
		}
	}
	for _, value := range []string{"secret\r\nHost: x", "secret\x00", "secret\n", "\x7fsecret"} {
		target.Resolve = func() (http.Header, error) { return http.Header{"X": {value}}, nil }
		if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP does not allow") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// What is requested of the target's host over https trusts whom the target trusts. No other host is asked so.
func TestTLSOfRequests(t *testing.T) {
	target, err := ParseTarget("wss://10.0.0.5:8443/asr")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"/health": true, ":9991/metrics": true, "https://10.0.0.6/health": false, "http://10.0.0.5/health": false} {
		u, err := target.ResolveURL(text)
		if err != nil {
			t.Fatal(err)
		}
		if config, err := target.tlsFor(u); err != nil || (config != nil) != want {
			t.Errorf("%s: %v, %v", u, config, err)
		}
	}
}
