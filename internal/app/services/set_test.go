package services

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A header or parameter that is the same for all clients is part of connections that are dialed before clients arrive.
func TestSetsTheSameForAll(t *testing.T) {
	t.Parallel()
	s := startListening(t, "")
	r := newRig(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Pass = []string{"query", "header:X-Via", "header:X-Other"}
			s.SetHeader, s.SetQuery = map[string]string{"x-via": "proxy 1"}, map[string]string{"via": "a b", "z": "&"}
		})
		putBackend(c, "a", "stt", s.url("/base?x=1"), 2, nil)
	})
	r.idle("a", 2)
	one, told, _ := r.say("/stt", &websocket.DialOptions{HTTPHeader: http.Header{}})
	if told.Target != "/base?x=1&via=a+b&z=%26" || !slices.Equal(told.Header["X-Via"], []string{"proxy 1"}) || told.Connection > 2 {
		t.Errorf("connection %d: %s, X-Via %q", told.Connection, told.Target, told.Header["X-Via"])
	}
	two, told, _ := r.say("/stt?via=evil&a=1", &websocket.DialOptions{HTTPHeader: http.Header{"X-Via": {"evil"}, "X-Other": {"o"}}})
	if told.Target != "/base?x=1&a=1&via=a+b&z=%26" || !slices.Equal(told.Header["X-Via"], []string{"proxy 1"}) || told.Header.Get("X-Other") != "o" {
		t.Errorf("a client that says them itself: %s, X-Via %q", told.Target, told.Header["X-Via"])
	}
	_, _ = one.CloseNow(), two.CloseNow()
	r.idle("a", 2)
	before, _ := s.counts()
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.SetHeader = map[string]string{"X-Via": "proxy 2"} })
	})
	wstest.Eventually(t, "connections are replaced", func() bool { n, _ := s.counts(); return n > before })
}

// What differs by client takes a connection of its own, and no client can say that it is another.
func TestSetsByClient(t *testing.T) {
	t.Parallel()
	s := startListening(t, "")
	signer := tokentest.NewSigner(t, "k", "ES256")
	path := filepath.Join(t.TempDir(), "jwks.json")
	write(t, path, tokentest.KeySet(signer.JWK()))
	r := newRig(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Auth, s.JWTKeys, s.Pass = []string{"jwt"}, "file:"+path, []string{"header:X-Tenant", "query"}
			s.SetHeader = map[string]string{"X-Tenant": "{tenant}", "X-Client": "{client}"}
			s.SetQuery = map[string]string{"user": "{subject}"}
		})
		putBackend(c, "a", "stt", s.url("/"), 3, nil)
	})
	token := func(tenant, subject string) http.Header {
		return http.Header{"X-Tenant": {"evil"}, "Authorization": {"Bearer " + signer.Sign(tokentest.Fields{"tenant": tenant, "sub": subject, "exp": 4_000_000_000})}}
	}
	for _, tenant := range []string{"acme", "globex", "acme"} {
		conn, told, _ := r.say("/stt?user=evil&a=1", &websocket.DialOptions{HTTPHeader: token(tenant, "u "+tenant)})
		if !slices.Equal(told.Header["X-Tenant"], []string{tenant}) || told.Header.Get("X-Client") != "127.0.0.1" || told.Target != "/?a=1&user=u+"+tenant {
			t.Errorf("%s: %s, %v", tenant, told.Target, told.Header)
		}
		if told.Header.Get("Authorization") != "" {
			t.Error("the token reaches the server")
		}
		_ = conn.CloseNow()
	}
	if n, _ := s.counts(); n != 3 {
		t.Errorf("%d connections for 3 clients: none may be shared, and none is dialed without a client", n)
	}
	for name, header := range map[string]http.Header{"unfit for a header": token("Müller", "u"), "no token": {}} {
		_, response, err := websocket.Dial(t.Context(), "ws://"+r.address+"/stt", &websocket.DialOptions{HTTPHeader: header})
		want := map[bool]int{true: http.StatusForbidden, false: http.StatusUnauthorized}[name != "no token"]
		if err == nil || response.StatusCode != want {
			t.Errorf("%s: %v, want %d", name, err, want)
		}
	}
}
