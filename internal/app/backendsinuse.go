package app

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// backendsInUse returns the backends that run in an order of [api.BackendOrders].
func (p *Proxy) backendsInUse(order string) []api.BackendInUse {
	ages := make(map[string][]time.Duration)
	for _, s := range p.allSessions() {
		if s.Backend != "" && s.State != api.StateWaiting {
			ages[s.Backend] = append(ages[s.Backend], time.Duration(s.AgeSeconds*float64(time.Second)))
		}
	}
	all := p.services.Backends(ages)
	if order == api.BackendsScaleIn {
		services.SortForScaleIn(all)
	}
	return all
}
