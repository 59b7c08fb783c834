package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Places says how a server's places are shared, such as "4 of 16 granted to this proxy, 12 to proxy-b"; empty if they are not. It names the
// proxies that have most.
func Places(b *api.Backend) string {
	p := b.Places
	switch {
	case p == nil:
		return ""
	case len(b.Proxies) == 0:
		return strings.Join(append([]string{fmt.Sprintf("%d of %d granted to this proxy", p.Grant, p.Cap)}, holders(p.Others)...), ", ")
	}
	all := make([]api.PlaceHolder, len(b.Proxies)) // of a whole fleet
	for i, one := range b.Proxies {
		all[i] = api.PlaceHolder{Name: one.Proxy, Places: one.Limit}
	}
	text := fmt.Sprintf("%d of %d granted", p.Granted, p.Cap)
	if names := holders(all); len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

// holders says how many places each proxy has, those with the most first, and how many all others have; nothing of those without.
func holders(all []api.PlaceHolder) (texts []string) {
	const most = 3
	all = slices.DeleteFunc(slices.Clone(all), func(h api.PlaceHolder) bool { return h.Places == 0 })
	slices.SortStableFunc(all, func(a, b api.PlaceHolder) int { return cmp.Compare(b.Places, a.Places) })
	sum := 0
	for i, h := range all {
		if i < most {
			texts = append(texts, fmt.Sprintf("%d to %s", h.Places, h.Name))
		} else {
			sum += h.Places
		}
	}
	if more := len(all) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d to %d more", sum, more))
	}
	return texts
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
