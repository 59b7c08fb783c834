package app

import (
	"net"
	"net/netip"
)

// listensAt reports whether one of the listeners accepts connections to an address of this machine.
func listensAt(listeners []net.Addr, address netip.AddrPort) bool {
	for _, listener := range listeners {
		tcp, ok := listener.(*net.TCPAddr)
		if !ok || tcp.Port != int(address.Port()) {
			continue
		}
		own, _ := netip.AddrFromSlice(tcp.IP)
		if own = own.Unmap(); own == address.Addr() || accepts(own, address.Addr()) && isLocal(address.Addr()) {
			return true
		}
	}
	return false
}

// accepts reports whether a listener at an address without a host, such as 0.0.0.0, accepts connections of the family. Those at :: accept
// both.
func accepts(own, address netip.Addr) bool {
	return !own.IsValid() || own.IsUnspecified() && (own.Is6() || address.Is4())
}

// isLocal reports whether an address is one of this machine's.
func isLocal(address netip.Addr) bool {
	if address.IsLoopback() {
		return true
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, i := range interfaces {
		if prefix, err := netip.ParsePrefix(i.String()); err == nil && prefix.Addr().Unmap() == address {
			return true
		}
	}
	return false
}
