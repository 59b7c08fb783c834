package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// authKeys returns a method with one good key, and one for another service.
func authKeys(t testing.TB, keys ...apikey.Key) *apikey.Method {
	t.Helper()
	m := apikey.NewMethod(time.Now)
	m.SetTable(apikey.NewTable(keys, nil))
	return m
}

// policyOf returns the policy of a service that authenticates its clients.
func policyOf(t testing.TB, from string, methods ...auth.Method) *auth.Policy {
	t.Helper()
	sources, err := auth.ParseSources(strings.Split(from, ","))
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Policy{Methods: methods, Sources: sources, Withheld: sources, EndUnauthorized: true}
}

// fixedMethod is a method that says the same to everybody.
type fixedMethod struct {
	wait chan struct{} // until it ends; nil not to wait
	err  error
}

func (fixedMethod) Name() string { return identity.MethodExternal }

func (m fixedMethod) Authenticate(ctx context.Context, _ *auth.Attempt) (*identity.Identity, error) {
	if m.wait != nil {
		select {
		case <-m.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &identity.Identity{Tenant: "acme", Method: identity.MethodExternal}, m.err
}

// Who gives no good credential gets no connection, and learns nothing else.
func TestUnauthenticatedClients(t *testing.T) {
	good, other, expired := apikey.New(), apikey.New(), apikey.New()
	keys := authKeys(t,
		apikey.Key{Name: "phone", Hash: apikey.HashOf(good)},
		apikey.Key{Name: "tv", Hash: apikey.HashOf(other), Services: []string{"tts"}, Tenant: "acme"},
		apikey.Key{Name: "old", Hash: apikey.HashOf(expired), Expires: time.Now().Add(-time.Second)},
	)
	const missing, invalid = `Bearer realm="test"`, `Bearer realm="test", error="invalid_token"`
	for _, c := range []struct {
		name, line string
		method     auth.Method
		status     int
		challenge  string
	}{
		{"no credential", "X-Nothing: here", keys, 401, missing},
		{"unknown key", "Authorization: Bearer " + apikey.New(), keys, 401, invalid},
		{"mistyped key", "Authorization: Bearer " + good[:len(good)-1] + "0", keys, 401, invalid},
		{"expired key", "Authorization: Token " + expired, keys, 401, invalid},
		{"no key", "Authorization: Bearer abc", keys, 401, invalid},
		{"key of another service", "Authorization: Bearer " + other, keys, 403, ""},
		{"two keys", "Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good, keys, 400, ""},
		{"a method that fails", "Authorization: Bearer abc", fixedMethod{err: errors.New("away")}, 503, ""},
		{"a method that is too slow", "Authorization: Bearer abc", fixedMethod{wait: make(chan struct{})}, 503, ""},
		{"a method without a turn", "Authorization: Bearer abc", fixedMethod{err: &auth.Denied{Status: 503, Err: errors.New("no turn")}}, 503, ""},
		{"an answer of another server", "Authorization: Bearer abc", fixedMethod{err: &auth.Denied{
			Status: 429, Header: http.Header{"Retry-After": {"7"}}, Err: errors.New("slow down"),
		}}, 429, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{
				Service: func(s *route.Service) { s.Auth = policyOf(t, "header", c.method) },
				Gate: func(o *admission.Options) {
					if slow, ok := c.method.(fixedMethod); ok && slow.wait != nil {
						o.Limits.HandshakeTimeout = 300 * time.Millisecond
					}
				},
			})
			p, response := r.Request(wstest.UpgradeRequest("/v1/test", c.line))
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || response.Header.Get("WWW-Authenticate") != c.challenge {
				t.Errorf("%s, %q, %v", response.Status, response.Header.Get("WWW-Authenticate"), err)
			}
			if c.status == 503 && response.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After: %q", response.Header.Get("Retry-After"))
			}
			if c.status == 401 && string(body) != "unauthorized: the service requires a valid credential\n" || strings.Contains(string(body), "phone") || strings.Contains(string(body), "away") {
				t.Errorf("the answer says %q", body)
			}
			p.ExpectEnd()
			if n := r.Backend.Stats().Totals.Leased; n != 0 {
				t.Errorf("%d connections were leased", n)
			}
			line := r.refusedLine()
			for _, attr := range line.Attrs {
				if text := attr.String(); strings.Contains(text, good) || strings.Contains(text, other) || strings.Contains(text, expired) {
					t.Errorf("the log has a key: %q", text)
				}
			}
			if c.status == 403 && line.Attrs["tenant"].String() != "acme" {
				t.Errorf("the log does not say whose key it was: %v", line.Attrs)
			}
		})
	}
}

// hangingMethod is a method that waits for another server until its channel is closed.
type hangingMethod struct {
	answers chan struct{}
	asked   chan struct{} // of enough room: receives for each question
}

func (hangingMethod) Name() string { return identity.MethodExternal }

func (m hangingMethod) Authenticate(ctx context.Context, a *auth.Attempt) (*identity.Identity, error) {
	if err := a.Wait(); err != nil {
		return nil, err
	}
	m.asked <- struct{}{}
	select {
	case <-m.answers:
		return &identity.Identity{Method: identity.MethodExternal}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// deadlineMethod is a method that notes how long it may wait.
type deadlineMethod chan time.Duration

func (deadlineMethod) Name() string { return identity.MethodExternal }

func (m deadlineMethod) Authenticate(ctx context.Context, _ *auth.Attempt) (*identity.Identity, error) {
	deadline, _ := ctx.Deadline()
	m <- time.Until(deadline)
	return nil, &auth.Denied{Err: errors.New("no")}
}

// A method that may need more time than a handshake has it.
func TestLongAuthentication(t *testing.T) {
	t.Parallel()
	method := make(deadlineMethod, 1)
	policy := policyOf(t, "header", method)
	policy.Timeout = 3 * wstest.Timeout
	r := newRig(t, setup{Cap: 1, Service: func(s *route.Service) { s.Auth = policy }})
	p, _ := r.Request(wstest.UpgradeRequest("/v1/test"))
	defer p.Close()
	if got := <-method; got < 2*wstest.Timeout {
		t.Errorf("it may wait for %v", got)
	}
}

// Clients of a service whose authentication hangs keep out no clients of other services. When many wait, further ones hear so at once.
func TestSlowAuthentication(t *testing.T) {
	t.Parallel()
	const limit = 8
	slow := hangingMethod{answers: make(chan struct{}), asked: make(chan struct{}, 2*limit)}
	r := newRig(t, setup{
		Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Other: &wstest.Server{Serve: wstest.Echo},
		Gate:    func(o *admission.Options) { o.Limits.MaxHandshakes, o.Limits.HandshakeTimeout = limit, time.Hour },
		Service: func(s *route.Service) { s.Auth = policyOf(t, "header", slow) },
	})
	r.Ready(1)
	var waiting []*wstest.Peer
	for range 2 { // as many as one network may have
		waiting = append(waiting, r.Connect(wstest.UpgradeRequest("/v1/test", "Authorization: Bearer abc")))
	}
	for range waiting {
		wstest.Receive(t, slow.asked, "a client that waits")
	}
	for range 2 * limit {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Authorization: Bearer abc"))
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 503 || response.Header.Get("Retry-After") == "" || string(body) != "too many clients wait for authentication: try again later\n" {
			t.Errorf("%s, %q, %v", response.Status, body, err)
		}
		p.ExpectEnd()
	}
	p, response := r.Request(wstest.UpgradeRequest("/v1/other", "X-Nothing: here"))
	if response.StatusCode != 101 {
		t.Fatal(response.Status)
	}
	p.CloseNormally()
	close(slow.answers)
	wstest.Eventually(t, "a client that has waited has a session", func() bool { return r.sessions.Begun() == 2 })
	for _, p := range waiting {
		p.Close()
	}
	wstest.Eventually(t, "no handshake is left", func() bool { return r.Gate.Stats().Handshakes == 0 })
}

// refusedLine returns the log's next line about a refused client.
func (r *rig) refusedLine() logtest.Line {
	r.T.Helper()
	for {
		if line := wstest.Receive(r.T, r.Log.Lines, "a line of the log"); line.Message == "client refused" {
			return line
		}
	}
}

// A client with a key shares a pooled connection, which hears nothing of the key.
func TestClientsWithKeys(t *testing.T) {
	keys := authKeys(t, apikey.Key{Name: "phone", Hash: apikey.HashOf(secretKey()), Tenant: "acme"})
	for _, c := range []struct {
		name, from, path string
		line             string
		granted          string
	}{
		{"Authorization", "header", "/v1/test", "Authorization: Bearer " + secretKey(), ""},
		{"header", "header:X-Api-Key", "/v1/test", "X-Api-Key: " + secretKey(), ""},
		{"query", "query:key", "/v1/test?key=" + secretKey(), "X-Nothing: here", ""},
		{"cookie", "cookie:session", "/v1/test", "Cookie: session=" + secretKey(), ""},
		{"pair of subprotocols", "subprotocol:token", "/v1/test", "Sec-WebSocket-Protocol: token, " + secretKey(), "token"},
		{"pair beside another", "subprotocol:token", "/v1/test", "Sec-WebSocket-Protocol: token, " + secretKey() + ", v1.other", "token"},
		{"one subprotocol", "subprotocol:api-key", "/v1/test", "Sec-WebSocket-Protocol: v1.other, api-key." + secretKey(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Service: func(s *route.Service) {
				s.Auth = policyOf(t, c.from, keys)
				pass, err := profile.ParsePass([]string{"header:Authorization", "header:X-Api-Key", "header:Cookie", "query"})
				if err != nil {
					t.Fatal(err)
				}
				s.Passing = &profile.HandshakePolicy{Pass: pass}
			}})
			r.Service.Passing.Profile = r.Backend.Profile()
			r.Ready(1)
			p, response := r.Request(wstest.UpgradeRequest(c.path, c.line))
			if response.StatusCode != 101 || response.Header.Get("Sec-Websocket-Protocol") != c.granted {
				t.Fatalf("%s, granted %q; want %q", response.Status, response.Header.Get("Sec-Websocket-Protocol"), c.granted)
			}
			shown := r.sessions.List()
			if len(shown) != 1 || shown[0].Identity == nil || shown[0].Identity.Tenant != "acme" || shown[0].Identity.Key != "phone" {
				t.Errorf("%+v", shown)
			}
			r.on(func(s *Session) {
				if s.variant != "" {
					t.Errorf("the session has a connection of its own, %q", s.variant)
				}
			})
			_ = p.Close()
		})
	}
}

var theSecret = apikey.New()

func secretKey() string { return theSecret }

// After too many failures from an address, its clients get 429 before anybody looks at what they say.
func TestGuessingClients(t *testing.T) {
	good := apikey.New()
	keys := authKeys(t, apikey.Key{Name: "phone", Hash: apikey.HashOf(good)})
	r := newRig(t, setup{
		Service: func(s *route.Service) { s.Auth = policyOf(t, "header", keys) },
		Gate: func(o *admission.Options) {
			o.AuthGuard = auth.NewGuard(limits.Rate{N: 3, Per: time.Hour}, slog.New(slog.DiscardHandler), time.Now)
		},
	})
	status := func(line string) *http.Response {
		t.Helper()
		p, response := r.Request(wstest.UpgradeRequest("/v1/test", line))
		_ = p.Close()
		return response
	}
	for range 5 {
		if got := status("X-Nothing: here").StatusCode; got != 401 {
			t.Fatalf("without a key: %d", got)
		}
	}
	for range 3 {
		if got := status("Authorization: Bearer " + apikey.New()).StatusCode; got != 401 {
			t.Fatalf("with a wrong key: %d", got)
		}
	}
	response := status("Authorization: Bearer " + good)
	if response.StatusCode != 429 || response.Header.Get("Retry-After") != "1200" {
		t.Errorf("%s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	if stats := r.stats(); stats.Guard.Blocked != 1 || stats.Guard.Suspects != 1 {
		t.Errorf("%+v", stats.Guard)
	}
	want := map[auth.Count]bool{{Method: "keys", Result: auth.Refused, Count: 3}: true, {Method: "none", Result: auth.Refused, Count: 5}: true}
	for _, c := range r.stats().Auth {
		if c.Count > 0 && !want[c] {
			t.Errorf("counted: %+v", c)
		}
	}
}

// withKey begins a session with a key that expires, or never does.
func withKey(t *testing.T, expires time.Time) (r *rig, client *wstest.Peer, method *apikey.Method, key apikey.Key) {
	t.Helper()
	secret := apikey.New()
	key = apikey.Key{Name: "phone", Hash: apikey.HashOf(secret), Tenant: "acme", Expires: expires}
	method = authKeys(t, key)
	r = newRig(t, setup{Profile: "echo", Service: func(s *route.Service) { s.Auth = policyOf(t, "header", method) }})
	client = r.Join("Authorization: Bearer " + secret)
	return r, client, method, key
}

func (r *rig) endedAs(class meter.Class) {
	r.T.Helper()
	wstest.Eventually(r.T, "the end is counted", func() bool { return len(r.counted().Ends) > 0 })
	if got := r.counted().Ends[0]; got.Class != class || got.By != meter.Proxy {
		r.T.Errorf("%+v", got)
	}
}

func TestRevokedKey(t *testing.T) {
	r, client, method, _ := withKey(t, time.Time{})
	server := r.Accepted()
	r.sessions.CheckCredentials() // nothing has changed
	client.Send(frame.Text, "hello")
	server.Expect(frame.Text, "hello")
	method.SetTable(apikey.NewTable([]apikey.Key{{Name: "other", Hash: apikey.HashOf("x")}}, method.Table()))
	r.sessions.CheckCredentials()
	client.ExpectClose(frame.PolicyViolation, "the API key was revoked")
	client.SendClose(frame.PolicyViolation, "")
	client.ExpectEnd()
	_ = client.Close()
	r.endedAs(meter.Unauthorized)
}

// A key ends its sessions also after the service has come to authenticate in another way.
func TestRevokedKeyOfFormerMethod(t *testing.T) {
	r, client, method, _ := withKey(t, time.Time{})
	other := *r.Service
	other.Auth = policyOf(t, "header", fixedMethod{})
	other.Auth.Former = auth.Chain{method}
	r.SetServices([]*route.Service{&other})
	r.sessions.CheckCredentials() // it is still good
	method.SetTable(apikey.NewTable(nil, method.Table()))
	r.sessions.CheckCredentials()
	client.ExpectClose(frame.PolicyViolation, "the API key was revoked")
	client.SendClose(frame.PolicyViolation, "")
	client.ExpectEnd()
}

func TestKeyThatExpires(t *testing.T) {
	r, client, method, key := withKey(t, time.Now().Add(time.Hour))
	key.Expires = time.Now().Add(50 * time.Millisecond) // its timer ends the session
	method.SetTable(apikey.NewTable([]apikey.Key{key}, method.Table()))
	r.sessions.CheckCredentials()
	client.ExpectClose(frame.PolicyViolation, "the API key has expired")
	client.SendClose(frame.PolicyViolation, "")
	client.ExpectEnd()
	_ = client.Close()
	r.endedAs(meter.Unauthorized)
}

// The expiry of a key can be changed while sessions use it.
func TestKeyThatExpiresLater(t *testing.T) {
	r, client, method, key := withKey(t, time.Now().Add(time.Hour))
	expiry := func() (at time.Time, active bool) {
		r.on(func(s *Session) {
			at, active = s.record.Identity.Expires, s.deadline.Active() && s.deadline.Purpose() == timeCredential
		})
		return at, active
	}
	if at, active := expiry(); !at.Equal(key.Expires) || !active {
		t.Errorf("%v, %v", at, active)
	}
	key.Expires = key.Expires.Add(time.Hour)
	method.SetTable(apikey.NewTable([]apikey.Key{key}, method.Table()))
	r.sessions.CheckCredentials()
	if at, active := expiry(); !at.Equal(key.Expires) || !active {
		t.Errorf("%v, %v; want %v", at, active, key.Expires)
	}
	key.Expires = time.Now()
	method.SetTable(apikey.NewTable([]apikey.Key{key}, method.Table()))
	r.sessions.CheckCredentials()
	client.ExpectClose(frame.PolicyViolation, "the API key has expired")
	client.SendClose(frame.PolicyViolation, "")
	client.ExpectEnd()
}

// A service that does not ask for it lets sessions continue.
func TestRevokedKeyOfAServiceThatKeepsSessions(t *testing.T) {
	r, client, method, _ := withKey(t, time.Now().Add(time.Hour))
	server := r.Accepted()
	kept := *r.Service
	kept.Auth = policyOf(t, "header", method)
	kept.Auth.EndUnauthorized = false
	r.SetServices([]*route.Service{&kept})
	method.SetTable(apikey.NewTable(nil, method.Table()))
	r.sessions.CheckCredentials()
	client.Send(frame.Text, "hello")
	server.Expect(frame.Text, "hello")
	r.SetServices([]*route.Service{r.Service}) // and then it does
	r.sessions.CheckCredentials()
	client.ExpectClose(frame.PolicyViolation, "the API key was revoked")
	client.SendClose(frame.PolicyViolation, "")
	client.ExpectEnd()
}

// A session's credential is no longer checked, because its service has stopped asking for that: its length is still limited.
func TestMaxSessionWhenCredentialsAreNoLongerChecked(t *testing.T) {
	secret := apikey.New()
	method := authKeys(t, apikey.Key{Name: "phone", Hash: apikey.HashOf(secret), Expires: time.Now().Add(time.Minute)})
	r := newRig(t, setup{Profile: "echo", Service: func(s *route.Service) {
		s.Auth, s.MaxDuration = policyOf(t, "header", method), time.Hour
	}})
	r.Join("Authorization: Bearer " + secret)
	timer := func() (active bool, purpose loop.Purpose) {
		r.on(func(s *Session) { active, purpose = s.deadline.Active(), s.deadline.Purpose() })
		return active, purpose
	}
	if active, purpose := timer(); !active || purpose != timeCredential {
		t.Fatalf("%v, %v", active, purpose)
	}
	kept := *r.Service
	kept.Auth = policyOf(t, "header", method)
	kept.Auth.EndUnauthorized = false
	r.SetServices([]*route.Service{&kept})
	r.on(func(s *Session) { // as when the key expires
		s.deadline.Stop()
		s.checkCredential()
	})
	if active, purpose := timer(); !active || purpose != timeDuration {
		t.Errorf("nothing ends the session after its max-session: %v, %v", active, purpose)
	}
}

// A key that is revoked while its client waits in the queue is refused, also by a service that lets sessions continue.
func TestKeyThatIsRevokedMeanwhile(t *testing.T) {
	for _, ends := range []bool{true, false} {
		secret := apikey.New()
		method := authKeys(t, apikey.Key{Name: "phone", Hash: apikey.HashOf(secret)})
		r := newRig(t, setup{Profile: "echo", Queue: 10, Service: func(s *route.Service) {
			s.Auth = policyOf(t, "header", method)
			s.Auth.EndUnauthorized = ends
		}})
		first := r.Join("Authorization: Bearer " + secret)
		second := r.Connect(wstest.UpgradeRequest("/v1/test", "Authorization: Bearer "+secret))
		wstest.Eventually(t, "the second client waits", func() bool { return r.Group.Queue().Waiting == 1 })
		method.SetTable(apikey.NewTable(nil, method.Table()))
		r.sessions.CheckCredentials()
		if ends {
			first.ExpectClose(frame.PolicyViolation, "the API key was revoked")
		}
		first.SendClose(frame.NormalClosure, "")
		if answer := second.Response(); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("ends %t: %s", ends, answer.Status)
		}
		wstest.Eventually(t, "no connection is leased", func() bool { return r.Backends[0].Stats().Leased == 0 })
	}
}
