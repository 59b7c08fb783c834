package services

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// write replaces a file as deployments do.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A service follows its key set and its settings, and accepts only its issuer's tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	server := startServer(t, 4)
	first, second := tokentest.NewSigner(t, "first", "ES256"), tokentest.NewSigner(t, "second", "EdDSA")
	path := filepath.Join(t.TempDir(), "jwks.json")
	write(t, path, tokentest.KeySet(first.JWK()))
	r := newRig(t)
	r.serve("a", server.URL(), 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Auth, s.JWTKeys, s.JWTIssuer = []string{"jwt"}, "file:"+path, "https://id.example.org"
			s.AuthFrom = []string{"header", "query:token"}
		})
	})
	claims := tokentest.Fields{"iss": "https://id.example.org", "aud": "speech", "sub": "u", "exp": time.Now().Add(time.Hour).Unix()}
	status := func(token string) int {
		c, status := r.ask("/stt", "", "Authorization", "Bearer "+token)
		if c != nil {
			c.leave()
		}
		return status
	}
	if got := status(first.Sign(claims)); got != 101 {
		t.Errorf("a good token: %d", got)
	}
	if c, got := r.ask("/stt?token="+first.Sign(claims), ""); got != 101 {
		t.Errorf("in the query: %d", got)
	} else {
		c.leave()
	}
	for name, token := range map[string]string{
		"another key":    second.Sign(claims),
		"another issuer": first.Sign(claims.With(tokentest.Fields{"iss": "https://evil.example"})),
		"expired":        first.Sign(claims.With(tokentest.Fields{"exp": time.Now().Add(-time.Hour).Unix()})),
		"no token":       "hello",
		"unsigned":       tokentest.Encode([]byte(`{"alg":"none"}`)) + "." + tokentest.Encode([]byte(`{"exp":4000000000}`)) + ".",
	} {
		if got := status(token); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, got)
		}
	}
	write(t, path, tokentest.KeySet(second.JWK()))
	wstest.Eventually(t, "the new key counts", func() bool { return status(second.Sign(claims)) == 101 })
	if got := status(first.Sign(claims)); got != http.StatusUnauthorized {
		t.Errorf("the key that is gone: %d", got)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.JWTAudience = []string{"mail"} })
	})
	if got := status(second.Sign(claims)); got != http.StatusUnauthorized {
		t.Errorf("another audience: %d", got)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.JWTAudience, s.JWTKeys = nil, "file:"+path+".missing" })
	})
	if got := status(second.Sign(claims)); got != http.StatusServiceUnavailable {
		t.Errorf("no key set at all: %d", got)
	}
}

// A service asks its HTTP server, and remembers what that has answered when other settings change.
func TestExternalCheck(t *testing.T) {
	t.Parallel()
	server := startServer(t, 4)
	var asked atomic.Int32
	checker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			w.Header().Set("X-Wsbouncer-Tenant", "acme")
		case "Bearer often":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "Bearer broken":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer checker.Close()
	r := newRig(t)
	r.serve("a", server.URL(), 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Auth, s.AuthURL, s.AuthCache, s.AuthTimeout = []string{"external"}, checker.URL, time.Hour, wstest.Timeout
		})
	})
	status := func(token string) int {
		c, status := r.ask("/stt", "", "Authorization", "Bearer "+token)
		if c != nil {
			c.leave()
		}
		return status
	}
	if s := r.services.services["stt"]; s.auth.Timeout <= s.checker.Options().Timeout {
		t.Errorf("clients wait for %v", s.auth.Timeout)
	}
	for token, want := range map[string]int{"good": 101, "often": 429, "broken": 503, "bad": 403} {
		if got := status(token); got != want {
			t.Errorf("%s: %d, want %d", token, got, want)
		}
	}
	before := asked.Load()
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.MaxMessage = 1 << 20 })
	})
	if got := status("good"); got != 101 || asked.Load() != before {
		t.Errorf("after another change: %d, asked %d times", got, asked.Load()-before)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.AuthFailure = "allow" })
	})
	if got := status("broken"); got != 101 {
		t.Errorf("with auth-failure allow: %d", got)
	}
	if got := status("bad"); got != 403 {
		t.Errorf("with auth-failure allow, turned away: %d", got)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Auth = nil })
	})
	if got := status("bad"); got != 101 || r.services.services["stt"].checker != nil {
		t.Errorf("without authentication: %d", got)
	}
}

// The certificate of a client's TLS connection says whose session it is. Without one, the client is asked for another credential.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := startListening(t, "")
	r := newRig(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Auth, s.CertificateTenant, s.SetHeader = []string{"certificate"}, "o", map[string]string{"X-Who": "{tenant}/{subject}/{method}"}
		})
		putBackend(c, "a", "stt", s.url("/"), 4, nil)
	})
	authority := securetest.NewAuthority(t)
	secured, client := authority.Loopback()
	secured = secured.Clone()
	secured.ClientAuth, secured.ClientCAs = tls.VerifyClientCertIfGiven, authority.Pool()
	listener := wstest.Listen(t)
	r.sessions.ServeTLS(listener, func() *tls.Config { return secured })
	dial := func(url string, certificates ...tls.Certificate) (*websocket.Conn, int) {
		t.Helper()
		config := client.Clone()
		config.Certificates = certificates
		dialer := websocket.Dialer{HandshakeTimeout: wstest.Timeout, TLSClientConfig: config}
		conn, response, err := dialer.Dial(url, nil)
		if err != nil && !errors.Is(err, websocket.ErrBadHandshake) {
			t.Fatal(err)
		}
		if conn != nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return conn, response.StatusCode
	}
	named := func(organization ...string) tls.Certificate {
		return authority.Issue(func(c *x509.Certificate) {
			c.Subject.CommonName, c.Subject.Organization, c.ExtKeyUsage = "device-7", organization, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})
	}
	over := "wss://" + listener.Addr().String() + "/stt"
	conn, status := dial(over, named("Acme"))
	if status != 101 {
		t.Fatalf("with a certificate: %d", status)
	}
	if err := conn.WriteMessage(websocket.TextMessage, []byte("?")); err != nil {
		t.Fatal(err)
	}
	var told heard
	if err := conn.ReadJSON(&told); err != nil || told.Header.Get("X-Who") != "Acme/device-7/certificate" {
		t.Errorf("the server was told %q, %v", told.Header.Get("X-Who"), err)
	}
	for name, c := range map[string]struct {
		url          string
		certificates []tls.Certificate
		want         int
	}{
		"no organization":              {over, []tls.Certificate{named()}, http.StatusForbidden},
		"no certificate":               {over, nil, http.StatusUnauthorized},
		"a listener without TLS":       {"ws://" + r.address + "/stt", nil, http.StatusUnauthorized},
		"a name that cannot be a name": {over, []tls.Certificate{named("a\tb")}, http.StatusForbidden},
	} {
		if _, status := dial(c.url, c.certificates...); status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
}
