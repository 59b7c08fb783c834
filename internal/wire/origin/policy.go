package origin

import (
	"fmt"
	"net/http"
	"net/netip"
)

// The headers that a policy may read.
const (
	XForwardedFor = "x-forwarded-for"
	Forwarded     = "forwarded" // RFC 7239
	NoHeader      = "none"
)

// Headers lists them.
var Headers = []string{XForwardedFor, Forwarded, NoHeader}

// Whether connections from trusted networks begin with a PROXY header.
const (
	ProxyOff      = "off"
	ProxyOptional = "optional"
	ProxyRequired = "required"
)

// ProxyModes lists them.
var ProxyModes = []string{ProxyOff, ProxyOptional, ProxyRequired}

// Policy defines which peers are believed about where clients come from. It is immutable. A nil Policy believes none.
type Policy struct {
	trusted Networks
	list    func(http.Header) addressList // reads the header of trusted requests; nil for none
	proxy   string                        // one of ProxyModes
}

// NewPolicy returns the policy that trusts these networks, reads that one of [Headers] and accepts PROXY headers as that one of
// [ProxyModes] says.
func NewPolicy(trusted []string, header, proxy string) (*Policy, error) {
	networks, err := ParseNetworks(trusted)
	if err != nil {
		return nil, err
	}
	p := &Policy{trusted: networks, proxy: proxy}
	switch header {
	case XForwardedFor:
		p.list = xForwardedFor
	case Forwarded:
		p.list = forwarded
	case NoHeader:
	default:
		return nil, fmt.Errorf("unknown header %q", header)
	}
	return p, nil
}

// ProxyHeader reports whether a connection from that peer may begin with a PROXY header, and whether it must.
func (p *Policy) ProxyHeader(peer Address) (may, must bool) {
	if p == nil || p.proxy == ProxyOff || !p.trusted.Contains(peer.Addr()) {
		return false, false
	}
	return true, p.proxy == ProxyRequired
}

// Trusts reports whether the peer is a load balancer that is believed about where clients come from.
func (p *Policy) Trusts(peer Address) bool { return p != nil && p.trusted.Contains(peer.Addr()) }

// maxHops is how many entries of a list are looked at. More load balancers than that one behind the other are a loop.
const maxHops = 32

// Client returns the address of the client whose request, with that header, came from source.
func (p *Policy) Client(source Address, header http.Header) Address {
	if p == nil || p.list == nil || !p.trusted.Contains(source.Addr()) {
		return source
	}
	client, list := source, p.list(header)
	for range maxHops {
		said, ok := list.last()
		if !ok {
			break
		}
		address, ok := parseEntry(said)
		if !ok {
			break
		}
		client = address
		if !p.trusted.Contains(client.Addr()) {
			break
		}
	}
	return client
}

// parseEntry reads the address in an entry of a list: an address, in brackets or not, and perhaps a port.
func parseEntry(text string) (Address, bool) {
	address, port := netip.Addr{}, uint16(0)
	if at, err := netip.ParseAddrPort(text); err == nil {
		address, port = at.Addr(), at.Port()
	} else {
		host := text
		if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
			host = host[1 : len(host)-1]
		}
		if address, err = netip.ParseAddr(host); err != nil || host != text && !address.Is6() {
			return Address{}, false
		}
	}
	// A zone means something on another machine only, and could be any text.
	return Address{netip.AddrPortFrom(address.WithZone("").Unmap(), port)}, true
}
