package app

import (
	"context"
	"errors"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/admin"
	"github.com/wsbouncer/wsbouncer/internal/api"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/peers"
)

// view returns what the proxy knows of its fleet.
func (p *Proxy) view() peers.View {
	if p.ledger == nil {
		return peers.View{Mode: api.FleetOff}
	}
	return p.ledger.View()
}

// fleetShown returns what the admin API shows of the fleet.
func (p *Proxy) fleetShown() api.Fleet {
	v := p.view()
	return v.Shown(time.Now())
}

// proxies returns what operators see of the fleet, and do to it.
func (p *Proxy) proxies() admin.Proxies {
	return admin.Proxies{
		Fleet: p.fleetShown,
		Grants: func(id string) []api.ProxyGrant {
			v := p.view()
			return v.Grants(fleet.ID(id))
		},
		Forget: func(ctx context.Context, id string) error {
			if p.ledger == nil {
				return admin.WrongState("this proxy shares no caps: it has no ledger to forget a proxy in")
			}
			err := p.ledger.Forget(ctx, fleet.ID(id))
			if errors.Is(err, fleet.ErrUnknown) { // it has ended, or was forgotten, since it was looked up
				return admin.Unknown("proxy", id, nil)
			}
			return err
		},
	}
}
