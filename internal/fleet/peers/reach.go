package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file finds out how another proxy is reached: at its address in the ledger, or at its admin socket if that is beside this process's own. The two
// processes of an upgrade have sockets beside each other, and with the default settings nothing else.

// send sends a request to another proxy by do, and returns the connection that was used; nil if there is none.
func (p *Peers) send(ctx context.Context, v *View, other *fleet.Member, r client.Request, do func(*client.Client, client.Request) error) (*connection, error) {
	by := func(c *connection) error {
		return c.prover.do(ctx, c.client, r, func(r client.Request) error { return do(c.client, r) })
	}
	c, err := p.reach(ctx, v, other, false)
	if err != nil {
		return nil, err
	}
	// With an upgrade, a process moves from the socket of the settings to one with its id. No process acts on a request that is for another one.
	if err = by(c); c.beside && isElsewhere(err) && ctx.Err() == nil {
		if moved, failed := p.reach(ctx, v, other, true); failed == nil && moved.address != c.address {
			c, err = moved, by(moved)
		}
	}
	return c, err
}

// isElsewhere reports whether an error is that another process answered than the one that was asked, or none.
func isElsewhere(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Status == http.StatusMisdirectedRequest || errors.As(err, new(*client.UnreachableError))
}

// reach returns how a proxy is asked: at its address if this one has a token to prove, and otherwise at its admin socket beside this one's, where the
// kernel proves who asks. Without both, only what changes nothing may be asked, at a loopback address. again has the socket looked for again.
func (p *Peers) reach(ctx context.Context, v *View, other *fleet.Member, again bool) (*connection, error) {
	self := v.member(v.Self)
	why := unusable(self, other)
	if (why != "" || p.token() == "") && self != nil && self.Host != "" && self.Host == other.Host {
		if at := p.socketOf(ctx, v.Self, other.ID, again); at != "" {
			return p.connect(v.Self, other.ID, at, true)
		}
	}
	if why != "" {
		return nil, errors.New(why)
	}
	return p.connect(v.Self, other.ID, other.Address, false)
}

// socketOf returns the address of the socket beside this process's own at which another one answers; empty for none.
func (p *Peers) socketOf(ctx context.Context, self, other fleet.ID, again bool) string {
	p.mu.Lock()
	known := p.known[other]
	p.mu.Unlock()
	if known.beside && !again {
		return known.address
	}
	if p.options.Beside == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout/3) // all at once: a process that was stopped does not answer
	defer cancel()
	var found atomic.Pointer[string]
	var asking sync.WaitGroup
	for _, address := range p.options.Beside() {
		asking.Go(func() {
			if p.answers(ctx, self, other, address) {
				found.Store(&address)
				cancel() // the others need not answer
			}
		})
	}
	asking.Wait()
	if at := found.Load(); at != nil {
		return *at
	}
	return ""
}

// answers reports whether it is a certain process that answers at the address of a socket.
func (p *Peers) answers(ctx context.Context, self, other fleet.ID, address string) bool {
	c, err := client.Open(address, p.clientOptions(self, other, true))
	if err != nil {
		return false
	}
	defer c.Close()
	return c.Do(ctx, client.Request{Path: "/healthz"}, nil) == nil
}

// token returns the token that this proxy proves to others; empty for none.
func (p *Peers) token() string {
	if p.options.Token == nil {
		return ""
	}
	return p.options.Token()
}

// unusable returns why a proxy's address cannot be used from here; empty if it can.
func unusable(self, other *fleet.Member) string {
	if other.Address == "" {
		return "its admin API cannot be reached by other proxies: set --admin there, or --fleet-address"
	}
	u, err := url.Parse(other.Address)
	if err != nil || u.Hostname() == "" {
		return fmt.Sprintf("its address %.200q is not a URL: set --fleet-address there", other.Address)
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
	if local && (self == nil || self.Host == "" || self.Host != other.Host) {
		return fmt.Sprintf("its address %s means another process on this host: set --admin there to an address that other hosts reach, or --fleet-address", other.Address)
	}
	return ""
}

// connect returns how a proxy is asked at an address.
func (p *Peers) connect(from, to fleet.ID, address string, beside bool) (*connection, error) {
	want := connection{address: address, beside: beside, token: p.token(), from: from}
	o := p.clientOptions(from, to, beside)
	// The address comes from the ledger: a client that writes to that must get nothing where certificates say who is a proxy.
	if o.Authorities != nil && !beside && !isTLS(address) {
		return nil, fmt.Errorf("its address %s is not https://, and --fleet-ca says whose certificates are to be trusted: nothing is sent there", address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("this proxy is shutting down")
	}
	before, ok := p.known[to]
	if want.client, want.prover = before.client, before.prover; ok && before == want {
		return &before, nil
	}
	var err error
	if want.client, err = client.Open(address, o); err != nil { // it does not connect yet
		return nil, err
	}
	if ok {
		_ = before.client.Close()
	}
	want.prover = &prover{token: want.token, from: string(from), to: string(to), address: address}
	if beside {
		want.prover.address = socketAddress
	}
	p.known[to] = want
	return &want, nil
}

// clientOptions returns how another proxy is connected to.
func (p *Peers) clientOptions(from, to fleet.ID, beside bool) client.Options {
	o := client.Options{
		MaxAnswer: maxAnswer, ServerName: p.options.ServerName, OwnUser: beside,
		Header: http.Header{api.PeerHeader: {string(from)}, api.ForHeader: {string(to)}},
	}
	if p.options.Authorities != nil {
		o.Authorities = p.options.Authorities()
	}
	return o
}

// isTLS reports whether an address is https://.
func isTLS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https"
}
