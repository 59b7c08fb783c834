package services

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
)

// newAuthRig is a rig that checks credentials when keys or services change.
func newAuthRig(t *testing.T) *rig {
	var r *rig
	r = newLoggedRig(t, slog.DiscardHandler, func(o *Options) { o.CheckCredentials = func() { r.sessions.CheckCredentials() } })
	return r
}

// refusedWith returns the HTTP status that a client with that line gets; 101 if it gets a session.
func (r *rig) refusedWith(path, authorization string) int {
	r.t.Helper()
	options := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if authorization != "" {
		options.HTTPHeader.Set("Authorization", authorization)
	}
	conn, response, err := websocket.Dial(r.t.Context(), "ws://"+r.address+path, options)
	if err == nil {
		_ = conn.CloseNow()
	}
	if response == nil {
		r.t.Fatal(err)
	}
	return response.StatusCode
}

// A service gets and loses keys while it runs, and its server hears of none of them.
func TestKeysAreLive(t *testing.T) {
	t.Parallel()
	r := newAuthRig(t)
	server := startListening(t, "")
	secret, second := apikey.New(), apikey.New()
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Pass = []string{"query", "header:X-Tag"} })
		putBackend(c, "a", "stt", server.url("/"), 3, nil)
	})
	r.idle("a", 3)
	if got := r.refusedWith("/stt", ""); got != 101 {
		t.Errorf("without authentication: %d", got)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Auth, s.AuthFrom, s.EndUnauthorized = []string{"keys"}, []string{"header", "query:key"}, true
		})
	})
	if got := r.refusedWith("/stt", "Bearer "+secret); got != 401 {
		t.Errorf("before there is a key: %d", got)
	}
	r.apply(func(c *config.Content) {
		c.Keys["phone"] = config.Key{Tenant: "acme", Hash: apikey.HashOf(secret).String()}
		c.Keys["tv"] = config.Key{Hash: apikey.HashOf(second).String(), Services: []string{"other"}}
	})
	if got := r.refusedWith("/stt", "Bearer "+second); got != 403 {
		t.Errorf("a key of another service: %d", got)
	}
	conn, got, _ := r.say("/stt", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
	if got.Header.Get("Authorization") != "" {
		t.Errorf("the server heard %q", got.Header)
	}
	_ = conn.CloseNow()
	conn, got, _ = r.say("/stt?key="+secret+"&model=x", &websocket.DialOptions{HTTPHeader: http.Header{"X-Tag": {"1"}}})
	if got.Target != "/?model=x" || got.Header.Get("X-Tag") != "1" {
		t.Errorf("the server was asked for %q, and heard %q", got.Target, got.Header)
	}
	r.apply(func(c *config.Content) { delete(c.Keys, "phone") })
	var closed websocket.CloseError
	if _, _, err := conn.Read(t.Context()); !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != "the API key was revoked" {
		t.Errorf("the session ends with %v", err)
	}
	if got := r.refusedWith("/stt", "Bearer "+secret); got != 401 {
		t.Errorf("after it was revoked: %d", got)
	}
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Auth = []string{"none"} }) })
	if got := r.refusedWith("/stt", ""); got != 101 {
		t.Errorf("without authentication once more: %d", got)
	}
}

// Changes of anything else keep the methods and keys as they are.
func TestAuthIsKept(t *testing.T) {
	t.Parallel()
	r := newAuthRig(t)
	checks := 0
	check := r.services.o.CheckCredentials
	r.services.o.CheckCredentials = func() { checks++; check() }
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Auth = []string{"keys"} })
		c.Keys["phone"] = config.Key{Hash: apikey.HashOf("x").String(), Services: []string{"stt"}}
	})
	policy, table := r.services.services["stt"].auth, r.services.keys.Table()
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Queue = 7 }) })
	if r.services.services["stt"].auth != policy || r.services.keys.Table() != table || checks != 1 {
		t.Errorf("a change of the queue touched authentication: %d checks", checks)
	}
	r.apply(func(c *config.Content) {
		c.Keys["phone"] = config.Key{Hash: apikey.HashOf("x").String(), Expires: time.Now().Add(time.Hour)}
	})
	if r.services.keys.Table() == table || checks != 2 {
		t.Errorf("a change of a key did not come into force: %d checks", checks)
	}
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.EndUnauthorized = true }) })
	if r.services.services["stt"].auth == policy || checks != 3 {
		t.Errorf("end-unauthorized did not come into force: %d checks", checks)
	}
}

// What clients authenticate with is not what they have for the backends.
func TestDescribeHandshakesWithAuth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(s *config.Service)
		want   []string
		not    string
	}{
		{func(s *config.Service) { s.Profile, s.Auth = "deepgram", []string{"keys"} }, []string{"withholds what clients authenticate with: header:Authorization"}, "passes header:Authorization"},
		{func(s *config.Service) {
			s.Profile, s.Auth, s.AuthFrom = "deepgram", []string{"keys"}, []string{"query:key", "cookie:s"}
		}, []string{"header:Authorization", "withholds what clients authenticate with: query:key,cookie:s"}, ""},
		{func(s *config.Service) { s.Auth, s.Pass = []string{"keys"}, []string{"header:authorization"} }, []string{"passes header:Authorization"}, "keeps"},
		{func(s *config.Service) { s.Auth = []string{"certificate"} }, []string{"drops clients' query, Authorization"}, "keeps"},
	} {
		content := config.NewContent()
		putService(&content, "stt", c.change)
		putBackend(&content, "a", "stt", "ws://127.0.0.1:1", 1, nil)
		handshakes, _ := Draft{planOf(t, &content, nil)}.DescribeHandshakes()
		got := handshakes["stt"]
		if slices.ContainsFunc(c.want, func(want string) bool { return !strings.Contains(got, want) }) || c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%q; want %q, not %q", got, c.want, c.not)
		}
	}
}

// A change of any field that says how clients are authenticated is applied.
func TestSameAuth(t *testing.T) {
	fields := 0
	of := reflect.TypeFor[config.Service]()
	for i := range of.NumField() {
		name := of.Field(i).Name
		if !slices.ContainsFunc([]string{"Auth", "JWT", "Certificate", "EndUnauthorized", "Pass"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		fields++
		before := config.Service{Auth: []string{identity.MethodKeys}}
		after := before
		switch f := reflect.ValueOf(&after).Elem().Field(i); f.Interface().(type) {
		case bool:
			f.SetBool(true)
		case string:
			f.SetString("changed")
		case time.Duration:
			f.SetInt(1)
		case []string:
			f.Set(reflect.ValueOf([]string{"changed"}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"tenant": "changed"}))
		default:
			t.Fatalf("%s has another type: %v", name, f.Type())
		}
		if sameAuth(&before, &after) {
			t.Errorf("a change of %s is not applied", name)
		}
	}
	if fields < 16 {
		t.Errorf("%d fields", fields)
	}
}
