package origin

import (
	"fmt"
	"net/netip"
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
	if len(n) == 0 {
		return false
	}
	address = address.Unmap().WithZone("")
	for _, network := range n {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
