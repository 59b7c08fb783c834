package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TenantWarnings returns what is likely to be wrong in the guarantees of tenants: places in a service that does not exist, whose
// clients have no tenants, or that has fewer connections than it guarantees.
func (s *Snapshot) TenantWarnings() (warnings []string) {
	type promise struct {
		places  int
		tenants []string
	}
	promised := make(map[string]*promise)
	for name, t := range s.Tenants() {
		for service := range t.Guaranteed {
			p := promised[service]
			if p == nil {
				p = new(promise)
				promised[service] = p
			}
			p.places += t.GuaranteedAt(service)
			p.tenants = append(p.tenants, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(promised)) {
		p := promised[name]
		who := strings.Join(p.tenants, ", ")
		service, ok := s.Service(name)
		switch {
		case !ok:
			warnings = append(warnings, fmt.Sprintf("the service %s, in which places are guaranteed to %s, does not exist", name, who))
			continue
		case len(service.AuthMethods()) == 0:
			warnings = append(warnings, fmt.Sprintf(
				"the service %s does not authenticate clients (auth: none), so no client can use the %d places that are guaranteed to %s", name, p.places, who))
			continue
		}
		connections, discovers := 0, false
		for _, b := range s.Members(name) {
			if b.State == "enabled" {
				connections += b.Cap()
			}
			discovers = discovers || b.Discovers() // each of the servers that are found has as many
		}
		if p.places > connections && !discovers {
			warnings = append(warnings, fmt.Sprintf(
				"the service %s guarantees %d places to %s, and its enabled backends have %d connections: each guarantee is scaled down to its part of them",
				name, p.places, who, connections))
		}
	}
	return warnings
}
