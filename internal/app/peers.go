package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/fleet/peers"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// view returns what the proxy knows of its fleet.
func (p *Proxy) view() *peers.View {
	if p.ledger == nil {
		return new(peers.View)
	}
	v := peers.View(*p.ledger.Status())
	if i := slices.IndexFunc(v.Members, func(m fleet.Member) bool { return m.ID == v.Self }); i >= 0 {
		v.Members = slices.Clone(v.Members) // the ledger's are shared, and its number of sessions is some seconds old
		v.Members[i].Sessions = int(p.sessions.Active())
	}
	return &v
}

// fleetShown returns what the admin API shows of the fleet.
func (p *Proxy) fleetShown() api.Fleet {
	return p.view().Shown(time.Now())
}

// peerLedger gives package peers the ledger, which is nil without a fleet.
type peerLedger struct{ p *Proxy }

// Status implements [peers.Ledger].
func (l peerLedger) Status() *agent.Status { return (*agent.Status)(l.p.view()) }

// Forget implements [peers.Ledger].
func (l peerLedger) Forget(ctx context.Context, id fleet.ID) error {
	if l.p.ledger == nil {
		return admin.WrongState("this proxy shares no caps: it has no ledger to forget a proxy in")
	}
	return l.p.ledger.Forget(ctx, id)
}

// fleetwide returns the admin API with answers for the whole fleet.
func (p *Proxy) fleetwide(next http.Handler) http.Handler {
	p.peers = peers.New(peers.Options{
		Ledger:      peerLedger{p},
		Token:       func() string { return p.live.Load().ForFleet() },
		Announced:   p.hasAnnounced,
		Authorities: p.fleetAuthorities,
	})
	return p.peers.Handler(next)
}

// fleetAuthorities returns who may have signed the certificates of other proxies' admin APIs; nil for the system's.
func (p *Proxy) fleetAuthorities() *x509.CertPool { return p.fleetCA }

// readFleetCA reads the file of --fleet-ca.
func (p *Proxy) readFleetCA() (err error) {
	if p.settings.FleetCA == "" {
		return nil
	}
	if p.fleetCA, err = secure.Authorities(p.settings.FleetCA); err != nil {
		return fmt.Errorf("--fleet-ca: %w", err)
	}
	return nil
}

// proxies returns what operators see of the fleet, and do to it.
func (p *Proxy) proxies() admin.Proxies {
	return admin.Proxies{
		Fleet: p.fleetShown,
		Grants: func(id string) []api.ProxyGrant {
			return p.view().Grants(fleet.ID(id))
		},
		Forget: func(ctx context.Context, id string) error {
			err := peerLedger{p}.Forget(ctx, fleet.ID(id))
			if errors.Is(err, fleet.ErrUnknown) { // it has ended, or was forgotten, since it was looked up
				return admin.Unknown("proxy", id, nil)
			}
			return err
		},
	}
}
