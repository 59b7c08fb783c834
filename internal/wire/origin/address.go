package origin

import (
	"net"
	"net/netip"
)

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
