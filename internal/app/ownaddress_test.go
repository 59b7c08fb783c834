package app

import (
	"net"
	"net/netip"
	"testing"
)

func TestListensAt(t *testing.T) {
	t.Parallel()
	listener := func(address string) []net.Addr {
		return []net.Addr{net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
	}
	for _, c := range []struct {
		listener, address string
		own               bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:8081", false},
		{"127.0.0.1:8080", "127.0.0.2:8080", false},
		{"0.0.0.0:8080", "127.0.0.2:8080", true},
		{"0.0.0.0:8080", "[::1]:8080", false},
		{"[::]:8080", "127.0.0.1:8080", true},
		{"[::]:8080", "[::1]:8080", true},
		{"[::]:8080", "192.0.2.1:8080", false}, // for documentation: no machine has it (RFC 5737)
		{"[::ffff:127.0.0.1]:8080", "127.0.0.1:8080", true},
		{"[::1]:8080", "127.0.0.1:8080", false},
	} {
		if own := listensAt(listener(c.listener), netip.MustParseAddrPort(c.address)); own != c.own {
			t.Errorf("a listener at %s accepts connections to %s: %v; want %v", c.listener, c.address, own, c.own)
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		prefix := netip.MustParsePrefix(a.String())
		if !listensAt(listener("[::]:80"), netip.AddrPortFrom(prefix.Addr().Unmap(), 80)) {
			t.Errorf("%s is not taken for one of this machine's addresses", prefix)
		}
	}
	if listensAt([]net.Addr{&net.UnixAddr{Name: "/run/a"}}, netip.MustParseAddrPort("127.0.0.1:80")) {
		t.Error("a unix socket accepts connections over TCP")
	}
}
