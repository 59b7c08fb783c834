package app

import (
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
)

// limitsReached returns what the statistics say about limits.
func limitsReached(s *session.Stats) api.Limits {
	all := api.Limits{HeldBack: s.HeldBack, Totals: []api.LimitTotal{}, Lately: []api.LimitReached{}}
	total := func(l *limits.Reached) api.LimitTotal {
		return api.LimitTotal{Limit: l.Limit.String(), Scope: l.Kind.String(), Count: l.Times}
	}
	for i := range s.Limits {
		all.Totals = append(all.Totals, total(&s.Limits[i]))
	}
	for i := range s.LimitsLately {
		l := &s.LimitsLately[i]
		all.Lately = append(all.Lately, api.LimitReached{LimitTotal: total(l), Name: l.Name, Since: l.Since.UTC()})
	}
	return all
}

// limitedStats adds the clients that limits of tenants have refused, to tenants that the statistics list already.
func limitedStats(to *api.Stats, refused map[string]uint64) {
	for name, n := range refused {
		t := to.Tenant(record.ShownIdentity(&identity.Identity{Tenant: name}).Tenant)
		if t != nil {
			t.Totals.Limited += n
		}
		if t == nil || t.Unconfigured {
			to.OtherTenants.Totals.Limited += n
		}
	}
}
