package admission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// namedTenants authenticates each client as one of the tenant that it names.
type namedTenants struct{}

func (namedTenants) Name() string { return identity.MethodKeys }

func (namedTenants) Authenticate(_ context.Context, a *auth.Attempt) (*identity.Identity, error) {
	return &identity.Identity{Tenant: strings.Clone(a.Credential), Method: identity.MethodKeys}, nil
}

// withTenants authenticates the service's clients by [namedTenants].
func withTenants(t *testing.T) func(*route.Service) {
	t.Helper()
	sources, err := auth.ParseSources([]string{"header"})
	if err != nil {
		t.Fatal(err)
	}
	return func(s *route.Service) {
		s.Auth = &auth.Policy{Methods: auth.Chain{namedTenants{}}, Sources: sources, Withheld: sources}
	}
}

func ofTenant(name string) string { return "Authorization: Bearer " + name }

func (r *rig) tenantStats(name string) pool.TenantStats {
	all, _ := r.Group.Tenants()
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return pool.TenantStats{}
}

// The queue is fair among tenants: one that sends many clients does not keep others waiting, and when the queue is full it is its
// last client that is refused.
func TestQueueIsFairAmongTenants(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 3, Script: &wstest.Server{Serve: wstest.Echo}, Service: withTenants(t)})
	served := r.Join(ofTenant("flood"))
	var flood []*wstest.Peer
	for range 3 {
		flood = append(flood, r.Queued(ofTenant("flood")))
	}
	refused := r.Connect(wstest.UpgradeRequest("/v1/test", ofTenant("flood")))
	sessiontest.ExpectUnavailable(t, refused, pool.ErrQueueFull.Error())
	quiet := r.Queued(ofTenant("quiet"))
	sessiontest.ExpectUnavailable(t, flood[2], pool.ErrEvicted.Error())

	wstest.Eventually(t, "quiet is the first of three", func() bool { // the refused client is still there for a moment
		places := make(map[string][]int)
		for _, d := range r.sessions.List() {
			if d.State == relay.StateWaiting {
				places[d.Identity.Tenant] = append(places[d.Identity.Tenant], d.Place)
			}
		}
		q, f := places["quiet"], places["flood"]
		return len(q) == 1 && q[0] == 1 && len(f) == 2 && f[0]+f[1] == 5
	})
	served.CloseNormally()
	quiet.ExpectUpgrade()
	quiet.Ask("first")
	if got := r.tenantStats("quiet"); got.InUse != 1 || got.Waiting != 0 {
		t.Errorf("quiet: %+v", got)
	}
	quiet.CloseNormally()
	for _, p := range flood[:2] {
		p.ExpectUpgrade()
		p.Ask("next")
		p.CloseNormally()
	}
	wstest.Eventually(t, "the tenants are forgotten", func() bool {
		all, forgotten := r.Group.Tenants()
		return len(all) == 0 && forgotten == pool.TenantTotals{Leased: 4, Queued: 4, Full: 1, Evicted: 1}
	})
}

// A session that moves to another connection stays its tenant's, and keeps its place in a full queue.
func TestMovedSessionKeepsItsTenant(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive", Queue: 1, Service: withTenants(t)})
	client, server := r.Session(ofTenant("acme"))
	if got := r.tenantStats("acme"); got.InUse != 1 {
		t.Errorf("with its first connection: %+v", got)
	}
	client.Send(frame.Text, `{"uid": "a"}`)
	server.Expect(frame.Text, `{"uid": "a"}`)
	server.Send(frame.Text, `{"status": "WAIT"}`)
	server.ExpectClose(frame.GoingAway, "session moved to another connection") // and is not closed yet: the cap is used up
	wstest.Eventually(t, "the session waits", func() bool { return r.tenantStats("acme").Waiting == 1 })
	other := r.Connect(wstest.UpgradeRequest("/v1/test", ofTenant("other")))
	sessiontest.ExpectUnavailable(t, other, pool.ErrQueueFull.Error())
	_ = server.Close()
	server = r.Accepted()
	if _, payload, err := server.Next(); err != nil || string(payload) != `{"uid": "a"}` {
		t.Fatalf("the second server got %q, %v", payload, err)
	}
	if got := r.tenantStats("acme"); got.InUse != 1 || got.Waiting != 0 {
		t.Errorf("with its second connection: %+v", got)
	}
	client.SendClose(frame.NormalClosure, "")
	_ = server.Close()
}
