package cli

import (
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// limitWarnings returns what is likely to be wrong with limits: those that hit others than they are meant for, or none.
func limitWarnings(s *settings.Settings, content *config.Content) (warnings []string) {
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	var byAddress, limited []string
	authenticates := false
	for _, name := range content.Names(config.KindService) {
		service := content.Services[name]
		authenticates = authenticates || len(service.AuthMethods()) > 0
		if service.ClientLimits != (limits.Limits{}) {
			byAddress = append(byAddress, name)
		}
	}
	if len(byAddress) > 0 && len(s.TrustedProxies) == 0 && len(beyondThisMachine(slices.Concat(s.Listen, s.TLSListen))) == 0 {
		warn("%s: each client address has limits, but only clients of this machine can connect, so that all clients of a load balancer here share them: set trusted-proxies",
			some(byAddress))
	}
	for _, name := range content.Names(config.KindTenant) {
		tenant := content.Tenants[name]
		if tenant.Limits != (limits.Limits{}) {
			limited = append(limited, name)
		}
		places := 0
		for service := range tenant.Guaranteed {
			places += tenant.GuaranteedAt(service)
		}
		if most := tenant.Limits.Sessions; most > 0 && places > most {
			warn("the tenant %s has %d guaranteed places and a session-limit of %d: the rest of the places cannot be used", name, places, most)
		}
	}
	if len(limited) > 0 && !authenticates {
		warn("limits of tenants apply to no client (%s): no service authenticates its clients (auth)", some(limited))
	}
	return warnings
}
