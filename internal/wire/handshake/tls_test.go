package handshake

import (
	"context"
	"errors"
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
