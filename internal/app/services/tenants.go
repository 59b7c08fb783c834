package services

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// tenantsOf returns how tenants share each service of a snapshot: a value for each service to which places are guaranteed, and one, under
// the empty name, for all others.
func tenantsOf(snapshot *config.Snapshot) map[string]*pool.TenantSettings {
	every := &pool.TenantSettings{Shares: make(map[string]float64)}
	all := map[string]*pool.TenantSettings{"": every}
	for name, t := range snapshot.Tenants() {
		every.Shares[name] = t.Share
		if name == config.DefaultTenant {
			every.OtherShare = t.Share
		}
		for service := range t.Guaranteed {
			s := all[service]
			if s == nil {
				s = &pool.TenantSettings{Guaranteed: make(map[string]int)}
				all[service] = s
			}
			s.Guaranteed[name] = t.GuaranteedAt(service)
		}
	}
	for _, s := range all {
		s.Shares, s.OtherShare = every.Shares, every.OtherShare
	}
	return all
}

// tenantsAt returns how tenants share a service.
func (p *plan) tenantsAt(service string) *pool.TenantSettings {
	if s := p.tenants[service]; s != nil {
		return s
	}
	return p.tenants[""]
}

// sameTenants reports whether tenants share a service in the same way.
func sameTenants(a, b *pool.TenantSettings) bool {
	return a == b || a != nil && b != nil && a.OtherShare == b.OtherShare && maps.Equal(a.Shares, b.Shares) && maps.Equal(a.Guaranteed, b.Guaranteed)
}

// applyTenants applies how tenants share a service. It is called with Services.mu held.
func (v *service) applyTenants(s *pool.TenantSettings) {
	if !sameTenants(v.tenants, s) {
		v.group.SetTenants(s)
	}
	v.tenants = s
}

// maxOtherTenants is how many of the tenants that are not configured the statistics list.
const maxOtherTenants = 100

// tenantStats adds what tenants use. It is called with mu held.
func (s *Services) tenantStats(to *api.Stats) {
	if s.desired == nil {
		return
	}
	all := make(map[string]*api.Tenant)
	for name, t := range s.desired.snapshot.Tenants() {
		all[name] = &api.Tenant{Name: name, Share: t.Share}
	}
	for _, v := range s.inOrder() {
		known, forgotten := v.group.Tenants()
		addTotals(&to.OtherTenants.Totals, &forgotten)
		slices.SortFunc(known, func(a, b pool.TenantStats) int { return cmp.Compare(a.Name, b.Name) })
		for i := range known {
			k := &known[i]
			if k.Name == "" {
				continue // clients without a tenant
			}
			t := all[k.Name]
			if t == nil {
				t = &api.Tenant{Name: record.ShownIdentity(&identity.Identity{Tenant: k.Name}).Tenant, Unconfigured: true, Share: k.Share}
				all[k.Name] = t
			}
			t.Sessions += k.InUse
			t.Waiting += k.Waiting
			addTotals(&t.Totals, &k.Totals)
			if k.InUse+k.Waiting+k.Promised > 0 {
				t.Services = append(t.Services, api.TenantService{
					Service: v.name, Sessions: k.InUse, Waiting: k.Waiting, Guaranteed: k.Promised, Kept: k.Guaranteed,
				})
			}
		}
	}
	var others []api.Tenant
	for _, t := range byName(all) {
		if !t.Unconfigured {
			to.Tenants = append(to.Tenants, *t)
			continue
		}
		others = append(others, *t)
		to.OtherTenants.Sessions += t.Sessions
		to.OtherTenants.Waiting += t.Waiting
		to.OtherTenants.Totals.Add(&t.Totals)
	}
	to.OtherTenants.Count = len(others)
	slices.SortStableFunc(others, func(a, b api.Tenant) int { return cmp.Compare(b.Sessions+b.Waiting, a.Sessions+a.Waiting) })
	to.Tenants = append(to.Tenants, others[:min(len(others), maxOtherTenants)]...)
}

func addTotals(to *api.TenantTotals, t *pool.TenantTotals) {
	to.Add(&api.TenantTotals{Sessions: t.Leased, Queued: t.Queued, TimedOut: t.TimedOut, Full: t.Full, Evicted: t.Evicted})
}
