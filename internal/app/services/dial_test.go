package services

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A backend's TLS settings and headers are what its server is dialed with.
func TestDialBy(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	requests := make(chan http.Header, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Header
		http.NotFound(w, r)
	}))
	server.TLS, _ = authority.Loopback()
	server.StartTLS()
	defer server.Close()
	secret := filepath.Join(t.TempDir(), "token")
	b := config.DefaultBackend()
	b.URL, b.TLSCA = strings.Replace(server.URL, "https", "wss", 1), authority.File()
	b.Headers = map[string]string{"Authorization": "Bearer file:" + secret, "X-Zone": "a"}
	target, err := handshake.ParseTarget(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	configureTarget(target, &b)
	readSecrets(target, &b, nil)
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "header: Authorization: file:"+secret) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatal(err)
	}
	if got := <-requests; got.Get("Authorization") != "Bearer hush" || got.Get("X-Zone") != "a" {
		t.Errorf("header %v", got)
	}
	if u, err := target.ResolveURL("/health"); err != nil || u.String() != server.URL+"/health" {
		t.Errorf("probed at %s", u)
	}
	b.TLSCA = ""
	configureTarget(target, &b)
	b.Headers = nil
	if _, err := target.Dial(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
