package app

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Clients that a limit of their tenant has refused are counted at the tenant, also at one that is not configured, and none is lost where the
// tenant has no clients now.
func TestLimitedStats(t *testing.T) {
	s := api.Stats{Tenants: []api.Tenant{{Name: "acme"}, {Name: "guest", Unconfigured: true}}}
	s.Tenants[0].Totals.Full = 1
	limitedStats(&s, map[string]uint64{"acme": 912, "guest": 3, "gone": 2, "": 1})
	if n := s.Tenants[0].Totals; n.Limited != 912 || n.Refused() != 913 {
		t.Errorf("acme: %+v", n)
	}
	if n, others := s.Tenants[1].Totals.Limited, s.OtherTenants.Totals.Limited; n != 3 || others != 6 {
		t.Errorf("not configured: %d, all others: %d", n, others)
	}
}
