package relay

import (
	"io"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// limitAll runs all tests of this package with limits that hold every client back all the time, and nothing may change. Try it after
// changes of the relay:
//
//	WSBOUNCER_TEST_LIMIT_ALL=1 go test -count=1 ./internal/session/relay
var limitAll = os.Getenv("WSBOUNCER_TEST_LIMIT_ALL") != ""

// tinyTurns are limits that are reached immediately, and soon no longer.
var tinyTurns = limits.Limits{
	Sessions: 1 << 20, ByteRate: limits.Rate{N: 256 << 10, Per: 6 * time.Millisecond}, MessageRate: limits.Rate{N: 8, Per: 6 * time.Millisecond},
}

// limitedRig returns a rig whose service has limits on all clients together and on those of each address.
func limitedRig(t *testing.T, o setup, service, client limits.Limits) *rig {
	scopes := limits.NewService("test")
	change := o.Service
	o.Service = func(s *route.Service) {
		s.Scopes = scopes
		if change != nil {
			change(s)
		}
	}
	r := newRig(t, o)
	r.Scopes.SetService(route.Now(), scopes, service, client)
	return r
}

// Clients beyond a number of sessions are refused, and one that ends makes room immediately: a client that comes back after the closing
// handshake never meets its own last session.
func TestSessionLimits(t *testing.T) {
	for _, c := range []struct {
		name            string
		service, client limits.Limits
		status          int
		says, log       string
	}{
		{"service", limits.Limits{Sessions: 1}, limits.Limits{}, 503, "too many sessions of this service", "session-limit 1 of service test reached"},
		{"client", limits.Limits{}, limits.Limits{Sessions: 1}, 429, "too many sessions from this address", "session-limit 1 of client 127.0.0.1 reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := limitedRig(t, setup{}, c.service, c.client)
			for range 20 {
				client := r.Join()
				p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
				body, _ := io.ReadAll(response.Body)
				if response.StatusCode != c.status || response.Header.Get("Retry-After") != "1" || string(body) != c.says+"\n" {
					t.Fatalf("got %s, Retry-After %q, %q", response.Status, response.Header.Get("Retry-After"), body)
				}
				_ = p.Close()
				client.SendClose(frame.NormalClosure, "")
				server := r.Accepted()
				server.ExpectClose(frame.NormalClosure, "")
				server.SendClose(frame.NormalClosure, "")
				client.ExpectClose(frame.NormalClosure, "")
				_ = server.Close()
			}
			if got := r.Shared.LimitLog.Total(); len(got) != 1 || got[0].Times != 20 || got[0].Limit != limits.Sessions {
				t.Errorf("counted: %+v", got)
			}
			if got := r.Shared.LimitLog.Lately(); len(got) != 1 || got[0].Times != 20 {
				t.Errorf("lately: %+v", got)
			}
			if line := r.Line("limit reached"); line["scope"].String() != c.name || line["value"].String() != "1" {
				t.Errorf("the line says %v", line)
			}
			if line := r.Line("client refused"); line["reason"].String() != c.log {
				t.Errorf("the line says %v", line)
			}
		})
	}
}

// Who comes more often than the rate allows is told when to come back, and that is true.
func TestSessionRate(t *testing.T) {
	r := limitedRig(t, setup{Cap: 2}, limits.Limits{}, limits.Limits{SessionRate: limits.Rate{N: 2, Per: time.Minute}})
	for range 2 {
		r.Join()
	}
	p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
	_ = p.Close()
	if after, _ := strconv.Atoi(response.Header.Get("Retry-After")); response.StatusCode != http.StatusTooManyRequests || after < 25 || after > 30 {
		t.Errorf("got %s, Retry-After %d", response.Status, after)
	}
	if answer := wstest.DialFrom(t, "127.0.0.2", r.Address, wstest.UpgradeRequest("/v1/test")).Response(); answer.StatusCode == http.StatusTooManyRequests {
		t.Errorf("another address gets %s", answer.Status)
	}
}

// Clients that are refused when they have taken their places do not count as new sessions, except of their address.
func TestRefusedClientsAreNoNewSessions(t *testing.T) {
	rate := limits.Limits{SessionRate: limits.Rate{N: 2, Per: time.Hour}}
	r := limitedRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}}, rate, limits.Limits{})
	client := r.Join()
	for range 3 {
		sessiontest.ExpectUnavailable(t, r.Connect(wstest.UpgradeRequest("/v1/test")), pool.ErrNoQueue.Error())
	}
	client.CloseNormally()
	r.Join()
	r.Scopes.SetService(route.Now(), r.Service.Scopes, limits.Limits{}, rate)
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
		if _ = p.Close(); response.StatusCode != status {
			t.Errorf("with a rate of each address: got %s; want %d", response.Status, status)
		}
	}
}

// Clients that are not authenticated use up nothing of what the service's clients share.
func TestStrangersUseUpNoLimit(t *testing.T) {
	secret := apikey.New()
	method := authKeys(t, apikey.Key{Name: "phone", Hash: apikey.HashOf(secret)})
	shared := limits.Limits{Sessions: 1, SessionRate: limits.Rate{N: 1, Per: time.Hour}}
	r := limitedRig(t, setup{Profile: "echo", Service: func(s *route.Service) { s.Auth = policyOf(t, "header", method) }}, shared, limits.Limits{})
	for range 3 {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
		_ = p.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Fatal(response.Status)
		}
	}
	r.Join("Authorization: Bearer " + secret)
}

// Whatever becomes of a client that has taken its places, it gives them back.
func TestPlacesOfRefusedClients(t *testing.T) {
	r := limitedRig(t, setup{Cap: 1, Queue: 5}, limits.Limits{Sessions: 3}, limits.Limits{Sessions: 3})
	client, _ := r.Session()
	waits := r.Connect(wstest.UpgradeRequest("/v1/test"))
	wstest.Eventually(t, "a client waits", func() bool { return r.Group.Queue().Waiting == 1 })
	if n := r.Scopes.Process().Sessions(); n != 2 {
		t.Errorf("%d sessions are counted; want the one that waits, too", n)
	}
	_ = waits.Close()
	wstest.Eventually(t, "its place is free", func() bool { return r.Scopes.Process().Sessions() == 1 })
	client.Reset()
	wstest.Eventually(t, "the place of one that left is free", func() bool { return r.Scopes.Process().Sessions() == 0 })
}

// enter takes the places of a client, as its admission does.
func (r *rig) enter(who *identity.Identity, hold *limits.Hold) *limits.Refusal {
	visitor := r.Service.Visitor(netip.Addr{}, who)
	if refused := r.Scopes.Arrive(route.Now(), visitor, hold); refused != nil {
		return refused
	}
	return r.Scopes.Admit(route.Now(), visitor, hold)
}

// admitted stands for no limit that refuses a client.
const admitted = limits.Kind(limits.Kinds)

// refusedBy returns whose limit refuses a client.
func refusedBy(r *limits.Refusal) limits.Kind {
	if r == nil {
		return admitted
	}
	return r.Scope.Kind()
}

// The identity of a client brings the limits of its key and tenant.
func TestLimitsOfIdentity(t *testing.T) {
	who := &identity.Identity{Tenant: "acme", Method: identity.MethodJWT, Subject: "k1", Limits: limits.Limits{Sessions: 2, MaxMessage: 10}}
	r := newRig(t, setup{})
	r.Scopes.SetTenants(route.Now(), map[string]limits.Limits{"acme": {Sessions: 3, IdleTimeout: time.Hour}}, nil)
	var taken []*limits.Hold
	enter := func(by limits.Kind) {
		t.Helper()
		hold := new(limits.Hold)
		taken = append(taken, hold)
		if got := refusedBy(r.enter(who, hold)); got != by {
			t.Errorf("client %d is refused by %v; want %v", len(taken), got, by)
		}
	}
	enter(admitted)
	enter(admitted)
	enter(limits.Key)
	taken[2].Release()
	who.Limits.Sessions = 0
	enter(admitted)
	enter(limits.Tenant)
	s := r.sessions.newSession(r.Service, &record.Client{Identity: who, Hold: taken[0]})
	if limit, by := s.maxMessage(); limit != 10 || by.Scope.Kind() != limits.Key {
		t.Errorf("messages of %d bytes, by %v", limit, by)
	}
	if limit, by := s.limited.idleTimeout(r.Service); limit != time.Hour || by.Scope.Name() != "acme" {
		t.Errorf("idle for %v, by %v", limit, by)
	}
	for _, hold := range taken {
		hold.Release()
	}
}

// The limits of an API key apply to the sessions that use it already, and a session that was admitted with others does not bring them back.
func TestLimitsOfKeyChange(t *testing.T) {
	r, _, _, key := withKey(t, time.Time{})
	holder := limits.Holder{Method: identity.MethodKeys, Tenant: key.Tenant, Name: key.Name}
	r.Scopes.SetKeys(route.Now(), map[limits.Holder]*limits.Limits{holder: {Sessions: 1, MaxMessage: 10}})
	r.sessions.LimitsChanged()
	wstest.Eventually(t, "the session that runs is counted", func() (counted bool) {
		r.on(func(s *Session) {
			_, by := s.maxMessage()
			counted = by.Scope != nil && by.Scope.Kind() == limits.Key
		})
		return counted
	})
	old, hold := &identity.Identity{Method: identity.MethodKeys, Tenant: key.Tenant, Key: key.Name, Limits: limits.Limits{Sessions: 9}}, new(limits.Hold)
	if got := refusedBy(r.enter(old, hold)); got != limits.Key {
		t.Errorf("another client with the key is refused by %v", got)
	}
	hold.Release()
}
