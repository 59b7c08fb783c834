package services

import (
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// applyLimits puts the limits of services, tenants and keys in force. It is called with mu held.
func (s *Services) applyLimits(snapshot *config.Snapshot) {
	now := limits.Instant(loop.Now())
	for _, v := range s.services {
		s.o.Scopes.SetService(now, v.scopes, v.plan.Limits, v.plan.ClientLimits)
	}
	tenants, others := make(map[string]limits.Limits), (*limits.Limits)(nil)
	for name, t := range snapshot.Tenants() {
		tenants[name] = t.Limits
		if name == config.DefaultTenant {
			others = &t.Limits
		}
	}
	s.o.Scopes.SetTenants(now, tenants, others)
	keys := make(map[limits.Holder]*limits.Limits)
	for name, k := range snapshot.Keys() {
		if k.Limits != (limits.Limits{}) {
			keys[limits.Holder{Method: identity.MethodKeys, Tenant: k.Tenant, Name: name}] = &k.Limits
		}
	}
	s.o.Scopes.SetKeys(now, keys)
}
