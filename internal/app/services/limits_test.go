package services

import (
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Limits come from the configuration, and a change of them cuts no session.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve("a", startServer(t, 4).URL(), 4)
	ask := func() (*wstest.Peer, *http.Response) {
		p := wstest.Dial(t, r.address, wstest.UpgradeRequest("/stt"))
		return p, p.Response()
	}
	change := func(service, client limits.Limits) {
		r.apply(func(c *config.Content) {
			putService(c, "stt", func(s *config.Service) { s.Limits, s.ClientLimits = service, client })
		})
	}
	first, response := ask()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response.Status)
	}
	change(limits.Limits{}, limits.Limits{Sessions: 2})
	second, response := ask()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(response.Status)
	}
	wstest.Eventually(t, "the session that began before is counted, too", func() bool {
		p, response := ask()
		defer p.Close()
		return response.StatusCode == http.StatusTooManyRequests
	})
	_ = second.Close()
	change(limits.Limits{Sessions: 1}, limits.Limits{})
	wstest.Eventually(t, "a limit of the service holds", func() bool {
		p, response := ask()
		defer p.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	first.Ask("still here")
	change(limits.Limits{ByteRate: limits.Rate{N: 10, Per: time.Hour}}, limits.Limits{})
	wstest.Eventually(t, "a rate holds for a session that runs", func() bool {
		first.Send(frame.Text, "more and more")
		return r.sessions.Stats().HeldBack == 1
	})
	change(limits.Limits{}, limits.Limits{})
	wstest.Eventually(t, "nothing is left of it", func() bool { return r.sessions.Stats().HeldBack == 0 })
}

// Tenants that are not configured have the limits of the tenant default, each its own, and one with a name has its own.
func TestLimitsOfTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(func(c *config.Content) {
		tenant := config.NewTenant()
		tenant.Limits.Sessions = 1
		c.Tenants[config.DefaultTenant] = tenant
		tenant.Limits.Sessions = 2
		c.Tenants["acme"] = tenant
	})
	for name, want := range map[string]int{"acme": 2, "one": 1, "other": 1, "default": 1} {
		got := 0
		for ; got < 5; got++ {
			one := new(limits.Hold)
			if refusal := r.services.o.Scopes.Admit(1, &limits.Visitor{Tenant: name}, one); refusal != nil {
				break
			}
			defer one.Release()
		}
		if got != want {
			t.Errorf("%s may have %d sessions; want %d", name, got, want)
		}
	}
}
