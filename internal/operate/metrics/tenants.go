package metrics

import "github.com/wsbouncer/wsbouncer/internal/operate/api"

// otherTenant is the label of all tenants together that the configuration does not name, so that clients cannot add series.
const otherTenant = "other"

// ofTenants returns the metrics of tenants.
func ofTenants() []family {
	tenant := each[api.Tenant]{
		labelled: []string{"tenant"},
		all:      labelledTenants,
		names:    func(t *api.Tenant) []string { return []string{t.Name} },
	}
	return []family{
		gauge("tenants_unconfigured", "Tenants with sessions or waiting clients that the configuration does not name.",
			func(s *Snapshot, put put) { put(float64(s.OtherTenants.Count)) }),
		tenant.gauge("tenant_sessions", "Connections that sessions of the tenant use now. The tenant "+otherTenant+" stands for all that are "+
			"not configured.",
			func(t *api.Tenant, put put) { put(float64(t.Sessions)) }),
		tenant.gauge("tenant_share", "Share of each service's connections, relative to the other tenants; 0 for the tenant "+otherTenant+".",
			func(t *api.Tenant, put put) { put(t.Share) }),
		tenant.gauge("tenant_waiting", "Clients of the tenant that wait for a connection now.",
			func(t *api.Tenant, put put) { put(float64(t.Waiting)) }),
		tenant.counter("tenant_sessions_total", "Connections that were leased to clients of the tenant.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Sessions)) }),
		tenant.counter("tenant_queued_total", "Clients of the tenant that joined a queue because no connection was free.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Queued)) }),
		tenant.counter("tenant_refused_total", "Clients of the tenant that got no connection: they waited without success (timed_out), found the queue "+
			"full (full), or lost their place in the full queue to another tenant (evicted).",
			func(t *api.Tenant, put put) {
				put(float64(t.Totals.TimedOut), "timed_out")
				put(float64(t.Totals.Full), "full")
				put(float64(t.Totals.Evicted), "evicted")
			}, "reason"),
	}
}

// labelledTenants returns the configured tenants, and the others as one.
func labelledTenants(s *Snapshot) (all []api.Tenant) {
	others := api.Tenant{Name: otherTenant, Sessions: s.OtherTenants.Sessions, Waiting: s.OtherTenants.Waiting, Totals: s.OtherTenants.Totals}
	for _, t := range s.Tenants {
		switch {
		case t.Unconfigured:
		case t.Name == otherTenant: // one series for both
			others.Sessions += t.Sessions
			others.Waiting += t.Waiting
			others.Totals.Add(&t.Totals)
		default:
			all = append(all, t)
		}
	}
	if len(s.Tenants) == 0 && others.Totals == (api.TenantTotals{}) {
		return nil // clients have no tenants
	}
	return append(all, others)
}
