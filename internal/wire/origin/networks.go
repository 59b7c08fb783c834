package origin

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Networks is a list of networks. It must not be changed once it is in use.
type Networks []netip.Prefix

// NetworksAllowed says in words what [ParseNetwork] accepts.
const NetworksAllowed = "networks such as 10.0.0.0/8 or addresses such as 192.0.2.7"

// ParseNetwork reads a network such as 10.0.0.0/8 or 2001:db8::/32, or one address. The error says what to write instead.
func ParseNetwork(text string) (netip.Prefix, error) {
	invalid := func(use string) (netip.Prefix, error) {
		return netip.Prefix{}, fmt.Errorf("invalid network %q: use %s", text, use)
	}
	host, bits, isNetwork := strings.Cut(text, "/")
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil && looksLikeName(host):
		return invalid("a network such as 10.0.0.0/8 or an address such as 192.0.2.7; names are not looked up")
	case err != nil:
		return invalid("a network such as 10.0.0.0/8 or an address such as 192.0.2.7")
	case address.Zone() != "":
		return invalid("an address without a zone: " + strings.Replace(text, "%"+address.Zone(), "", 1))
	case !isNetwork:
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return invalid(fmt.Sprintf("a prefix length from 0 to %d, such as %s/%s, not %q", address.BitLen(), host, usualLength(address), bits))
	}
	if address.Is4In6() {
		if network.Bits() < 96 {
			return invalid("IPv4 networks in their own form, such as 10.0.0.0/8")
		}
		network = netip.PrefixFrom(address.Unmap(), network.Bits()-96)
	}
	if masked := network.Masked(); masked != network {
		return invalid(fmt.Sprintf("%s for the network, or %s for the one address", masked, network.Addr()))
	}
	return network, nil
}

// looksLikeName reports whether a text has a letter that no address has.
func looksLikeName(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r >= 'g' && r <= 'z' || r >= 'G' && r <= 'Z' })
}

func usualLength(a netip.Addr) string {
	if a.Is4() {
		return "24"
	}
	return "64"
}

// ParseNetworks reads several networks.
func ParseNetworks(texts []string) (Networks, error) {
	var list Networks
	for _, text := range texts {
		network, err := ParseNetwork(text)
		if err != nil {
			return nil, err
		}
		list = append(list, network)
	}
	return list, nil
}

// Contains reports whether an address is in one of the networks, whatever its zone.
func (n Networks) Contains(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(n, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Address is the address and port of a client or a load balancer. The port is 0 if it is not known: most load balancers do not tell the
// port of a client. The zero value stands for no address.
type Address struct{ netip.AddrPort }

// AddressOf returns a TCP address, an IPv4 address in its own form also if it came over a socket for IPv6. It returns the zero value for
// addresses of other kinds, and for nil.
func AddressOf(a net.Addr) Address {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp == nil {
		return Address{}
	}
	at := tcp.AddrPort()
	return Address{netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}
}

// String returns the address and port as logs and the admin API show them: 192.0.2.7:5000, [2001:db8::7]:5000, or without a port
// 192.0.2.7 and 2001:db8::7.
func (a Address) String() string {
	if a.Port() == 0 && a.IsValid() {
		return a.Addr().String()
	}
	return a.AddrPort.String()
}

// MarshalText implements [encoding.TextMarshaler]; it returns nothing for the zero value.
func (a Address) MarshalText() ([]byte, error) {
	if !a.IsValid() {
		return nil, nil
	}
	return []byte(a.String()), nil
}

// AppendText implements [encoding.TextAppender].
func (a Address) AppendText(b []byte) ([]byte, error) {
	text, err := a.MarshalText()
	return append(b, text...), err
}

// UnmarshalText implements [encoding.TextUnmarshaler]: it reads what MarshalText writes.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address{}
	if len(text) == 0 {
		return nil
	}
	if addr, err := netip.ParseAddr(string(text)); err == nil {
		a.AddrPort = netip.AddrPortFrom(addr, 0)
		return nil
	}
	return a.AddrPort.UnmarshalText(text)
}

// Text returns the same as String; an empty text for nil.
func (a *Address) Text() string {
	if a == nil {
		return ""
	}
	return a.String()
}
