package diagnosis

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// Places says how a server's places are shared, such as "4 of 16 granted to this proxy, 12 to proxy-b"; empty if they are not.
func Places(b *api.Backend) string {
	p := b.Places
	if p == nil {
		return ""
	}
	const most = 3
	if len(b.Proxies) > 0 { // of a whole fleet
		text := fmt.Sprintf("%d of %d granted", p.Granted, p.Cap)
		for i, one := range b.Proxies[:min(most, len(b.Proxies))] {
			text += fmt.Sprintf("%s %d to %s", []string{":", ","}[min(i, 1)], one.Limit, one.Proxy)
		}
		if more := len(b.Proxies) - most; more > 0 {
			text += fmt.Sprintf(" and others to %d more", more)
		}
		return text
	}
	text := fmt.Sprintf("%d of %d granted to this proxy", p.Grant, p.Cap)
	for i := range p.Others[:min(most, len(p.Others))] {
		text += fmt.Sprintf(", %d to %s", p.Others[i].Places, p.Others[i].Name)
	}
	if more := len(p.Others) - most; more > 0 {
		sum := 0
		for _, o := range p.Others[most:] {
			sum += o.Places
		}
		text += fmt.Sprintf(", %d to %d more", sum, more)
	}
	return text
}

// placesInUse says how the places of a service's backends are shared, if the clients that wait do so because this proxy has no more of them;
// empty if they do not.
func placesInUse(s *api.Stats, v *api.Service) string {
	const most = 3
	var all []string
	for i := range s.Backends {
		b := &s.Backends[i]
		if b.Service != v.Name || !b.Usable || b.State != "enabled" || b.Weight == 0 {
			continue
		}
		if b.Places == nil || b.Leased+b.Resetting < b.Limit {
			return "" // they wait for something else
		}
		all = append(all, b.Name+": "+Places(b))
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more backends", more))
	}
	return strings.Join(all, "; ")
}
