package app

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ledger is a ledger that a test writes. Its owner is the test; a proxy reads its view at any time.
type ledger struct {
	view      atomic.Pointer[agent.Status] // nil for that of a proxy that shares nothing
	forgotten []fleet.ID
}

func (l *ledger) Status() *agent.Status { return cmp.Or(l.view.Load(), new(agent.Status)) }

func (l *ledger) Forget(_ context.Context, id fleet.ID) error {
	l.forgotten = append(l.forgotten, id)
	return nil
}

// fleet asks a proxy about its fleet: without a ledger, and then with a ledger that knows a dead proxy and two of one name.
func (c *contract) fleet() {
	const list, one, forget = "/api/v1/proxies", "/api/v1/proxies/{id}", "/api/v1/proxies/{id}/forget"
	c.ask(request{method: "GET", path: list, status: 200, says: `"off"`})
	c.ask(request{method: "GET", path: one, names: []string{"proxy-b"}, status: 404, says: "none exists"})
	l := c.ledger
	l.view.Store(&agent.Status{
		Mode: agent.Shared, Ledger: "postgres://db/wsbouncer", Self: "a000000000000001",
		Members: []fleet.Member{
			{ID: "a000000000000001", Name: "proxy-a", State: fleet.Serving, Started: time.Now()},
			{ID: "b000000000000001", Name: "proxy-b", State: fleet.Serving},
			{ID: "c000000000000001", Name: "proxy-c", State: fleet.Serving},
			{ID: "c000000000000002", Name: "proxy-c", State: fleet.Draining},
		},
		Unseen: map[fleet.ID]time.Duration{"b000000000000001": 12 * time.Second},
		Accounts: []fleet.Account{{Server: "gpu-1:80", Grants: []fleet.Grant{
			{Proxy: "a000000000000001", Places: 4}, {Proxy: "b000000000000001", Places: 12}, {Proxy: "c000000000000001", Places: 1},
		}}},
	})
	c.ask(request{method: "GET", path: list, status: 200, says: "not seen for 12 s"})
	c.ask(request{method: "GET", path: list, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "GET", path: one, names: []string{"proxy-b"}, status: 200, says: `"places": 12`})
	c.ask(request{method: "GET", path: one, names: []string{"b0000"}, status: 200, says: "gpu-1:80"})
	c.ask(request{method: "GET", path: one, names: []string{"proxy-c"}, status: 409, says: "use the id of one: c000000000000001 (serving), c000000000000002 (draining)"})
	c.ask(request{method: "GET", path: one, names: []string{"proxy-b"}, query: "x=1", status: 400, says: "takes none"})
	c.ask(request{method: "POST", path: forget, names: []string{"proxy-a"}, status: 409, says: "is this proxy"})
	c.ask(request{method: "POST", path: forget, names: []string{"proxy-x"}, status: 404, says: "unknown proxy"})
	c.ask(request{method: "POST", path: forget, names: []string{"c000000000000001"}, status: 409, says: "servers may see 1 connection more than their caps"})
	c.ask(request{method: "POST", path: forget, names: []string{"c000000000000001"}, query: "force=1", status: 400, says: "use true or false"})
	c.ask(request{method: "POST", path: forget, names: []string{"c000000000000001"}, query: "force=true", status: 200, says: "its place is free"})
	c.ask(request{method: "POST", path: forget, names: []string{"proxy-b"}, body: `{"who":"alice"}`, status: 200, says: "its 12 places are free"})
	if len(l.forgotten) != 2 || l.forgotten[1] != "b000000000000001" {
		c.t.Errorf("forgotten: %v", l.forgotten)
	}
	c.ask(request{method: "GET", path: "/api/v1/stats", query: "fleet=yes", status: 400, says: "use true or false"})
	c.ask(request{method: "GET", path: list, query: "fleet=true", status: 200, says: "set --admin there, or --fleet-address"})
	c.ask(request{method: "GET", path: "/api/v1/stats", query: "fleet=true", status: 200, says: "its sessions are not known"})
	c.ask(request{method: "GET", path: "/api/v1/sessions", query: "fleet=true", status: 200, says: `"missing"`})
	c.ask(request{method: "POST", path: "/api/v1/services/{name}/pause", names: []string{"no"}, query: "fleet=true", status: 404, says: "it may not have been done there"})
	l.view.Store(nil)
}

// Two proxies with one token answer for each other; the token is not sent. With another token, the answer says so.
func TestPeersProveTheToken(t *testing.T) {
	t.Parallel()
	var proxies [2]*Proxy
	var shown [2]ledger
	for i := range proxies {
		s := DefaultSettings()
		s.Listen, s.Admin, s.Database = []string{"127.0.0.1:0"}, "127.0.0.1:0", ":memory:"
		s.Fleet, s.ledger = settings.Off, &shown[i]
		s.Tokens, s.AdminToken = settings.Tokens{Token: "s3cret"}, "env:X"
		p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Shutdown()
		proxies[i] = p
	}
	a, b := proxies[0], proxies[1]
	view := agent.Status{Mode: agent.Shared, Self: "a", Members: []fleet.Member{
		{ID: "a", Name: "proxy-a", Address: a.adminURL(a.AdminAddress()), Host: "h"}, {ID: "b", Name: "proxy-b", Address: b.adminURL(b.AdminAddress()), Host: "h"},
	}}
	for i := range shown {
		own := view
		own.Self = view.Members[i].ID
		proxies[i].announced.Store(view.Members[i].Address, struct{}{})
		shown[i].view.Store(&own)
	}
	operator, err := client.Open(view.Members[0].Address, client.Options{Token: "s3cret", Fleet: true})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	var f api.Fleet
	if err := operator.Get(t.Context(), api.ProxiesPath, nil, &f); err != nil || len(f.Missing) > 0 || len(f.Proxies) != 2 || !f.Proxies[1].Reachable {
		t.Errorf("%+v, %v", f, err)
	}
	now := b.live.Load()
	b.Reconfigure(now.Settings, settings.Tokens{Token: "an0ther"})
	if err := operator.Get(t.Context(), api.ProxiesPath, nil, &f); err != nil || len(f.Missing) != 1 || !strings.Contains(f.Missing[0].Why, "wrong token") {
		t.Errorf("%+v, %v", f, err)
	}
}
