package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/fleet/peers"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
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
		Beside:      p.adminSockets,
		Authorities: func() *x509.CertPool { return p.fleetCA }, ServerName: p.settings.FleetServerName,
	})
	return p.peers.Handler(next)
}

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

// forward asks the proxy of a token about its client, see [peers.Peers.Forward].
func (p *Proxy) forward(ctx context.Context, process record.Process, client *admission.Forwarded) (string, net.Conn, error) {
	if p.peers == nil {
		return "", nil, errors.New("without an admin API, other proxies cannot be asked")
	}
	about := &api.ForwardedClient{Address: client.Address.AddrPort.String(), Peer: ""}
	if client.Peer != nil {
		about.Peer = client.Peer.AddrPort.String()
	}
	if client.Certificate != nil {
		about.Certificate = client.Certificate.Raw
	}
	return p.peers.Forward(ctx, string(process[:]), about)
}

// takeForwarded answers another proxy that has a client of this one, see [admin.Source]. While the addresses for clients are another process's, or
// closed, it takes the client's connection itself.
func (p *Proxy) takeForwarded(r *http.Request, c *api.ForwardedClient) (url, proof string, take func(net.Conn), err error) {
	via := new(admission.Forwarded)
	if via.Address.AddrPort, err = netip.ParseAddrPort(c.Address); err != nil {
		return "", "", nil, fmt.Errorf("address: invalid address %.100q: use that of the client, and its port", c.Address)
	}
	if c.Peer != "" {
		via.Peer = new(origin.Address)
		if via.Peer.AddrPort, err = netip.ParseAddrPort(c.Peer); err != nil {
			return "", "", nil, fmt.Errorf("peer: invalid address %.100q: use that of the load balancer, and its port", c.Peer)
		}
	}
	if len(c.Certificate) > 0 {
		if via.Certificate, err = x509.ParseCertificate(c.Certificate); err != nil {
			return "", "", nil, errors.New("certificate: use the client's in DER form")
		}
	}
	if end := p.end.Load(); end == nil || end.closed.IsZero() {
		url = p.settings.ReconnectURL
	}
	token := p.live.Load().Token
	proof = p.peers.Reply(r, token, url)
	if (proof == "" || token == "") && !admin.FromOwnUser(r) { // an operator is not believed who a client is
		return "", "", nil, errors.New("the request does not prove that it comes from a proxy of the fleet")
	}
	return url, proof, func(nc net.Conn) { p.sessions.TakeForwarded(nc, via) }, nil
}
