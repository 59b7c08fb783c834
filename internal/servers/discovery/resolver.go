package discovery

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
)

// Resolver asks DNS. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// NewResolver returns a resolver that asks a DNS server at host:port, or those of the system if that is empty. In both cases the
// system's file of hosts and its search list apply, and an answer that UDP has cut off is asked for again over TCP.
func NewResolver(server string) Resolver {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, cmp.Or(server, address))
		if err == nil {
			// Otherwise a query whose lookup was given up would wait for its answer until its own time is over.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
	if server == "" {
		return resolver
	}
	return &ownServer{address: server, Resolver: resolver}
}

// ownServer asks one DNS server, and names it in errors: package net would name the system's.
type ownServer struct {
	address string
	*net.Resolver
}

// LookupNetIP implements [Resolver].
func (r *ownServer) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addresses, err := r.Resolver.LookupNetIP(ctx, network, host)
	return addresses, r.named(err)
}

// LookupSRV implements [Resolver].
func (r *ownServer) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	cname, records, err := r.Resolver.LookupSRV(ctx, service, proto, name)
	return cname, records, r.named(err)
}

func (r *ownServer) named(err error) error {
	var failed *net.DNSError
	if !errors.As(err, &failed) {
		return err
	}
	named := *failed
	named.Server = r.address
	return &named
}
