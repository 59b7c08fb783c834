// Package dialfrom dials servers from chosen local addresses.
//
// A TCP connection is known by four numbers: local address and port, and the server's address and port. So between one local address
// and one port of a server there are at most as many connections as the system has ports for outgoing connections: about 28,000 on
// Linux. Each further local address allows as many again.
package dialfrom

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// Dialer dials one server from several local addresses in turn. Any goroutine may use it. A nil Dialer lets the system choose the
// address.
type Dialer struct {
	addresses []netip.Addr  // static
	turn      atomic.Uint32 // how many dials have begun
}

// New returns a Dialer for one server; nil without addresses.
func New(addresses []netip.Addr) *Dialer {
	if len(addresses) == 0 {
		return nil
	}
	return &Dialer{addresses: addresses}
}

// Dial opens a TCP connection to a server, host:port, with the other settings of a dialer. It begins with the address whose turn it is,
// and tries the next one if that has no port left or is no longer on this machine. If the server's name has addresses of both
// families, and those of one do not answer within half of the time, it tries an address of the other family. [machine.Local] recognizes the error if no
// address of a family could be used, since the server may accept connections over that.
func (d *Dialer) Dial(ctx context.Context, with net.Dialer, server string) (net.Conn, error) {
	if d == nil {
		return with.DialContext(ctx, "tcp", server)
	}
	other := with.Control
	with.Control = func(network, address string, c syscall.RawConn) error {
		sharePorts(c)
		if other != nil {
			return other(network, address, c)
		}
		return nil
	}
	return d.inTurn(ctx, server, func(from netip.Addr, until time.Time) (net.Conn, error) {
		with.LocalAddr = &net.TCPAddr{IP: from.AsSlice(), Zone: from.Zone()}
		with.Deadline = until
		return with.DialContext(ctx, "tcp", server)
	})
}

// inTurn is Dial with a function that dials from one address until a time, or, if that is zero, for as long as ctx allows.
func (d *Dialer) inTurn(ctx context.Context, server string, dial func(from netip.Addr, until time.Time) (net.Conn, error)) (net.Conn, error) {
	suitable := Suitable(d.addresses, server)
	turn := int((d.turn.Add(1) - 1) % uint32(max(len(suitable), 1)))
	until, limited := ctx.Deadline()
	var failed error   // of the server
	var short [2]error // of this machine, by family
	var over [2]bool   // by family: the server need not be dialed from other addresses of it
	var cut netip.Addr // half of the time was not enough from here, and the server was not dialed over the other family since
	for i := range suitable {
		from := suitable[(turn+i)%len(suitable)]
		if over[family(from)] {
			continue
		}
		half := time.Time{}
		if limited && !over[1-family(from)] && slices.ContainsFunc(suitable, func(a netip.Addr) bool { return family(a) != family(from) }) {
			half = time.Now().Add(time.Until(until) / 2) // the rest is for the other family
		}
		nc, err := dial(from, half)
		switch {
		case err == nil:
			return nc, nil
		case machine.Unaddressed(err): // the next address may do
			short[family(from)] = err
		case LacksFamily(err):
			over[family(from)] = true
		case ctx.Err() != nil, machine.Local(err):
			return nil, err
		default:
			over[family(from)] = true
			if failed == nil {
				failed = err
			}
			cut = netip.Addr{}
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !half.IsZero() {
				cut = from
			}
		}
	}
	if cut.IsValid() { // the other family has not used its half
		nc, err := dial(cut, time.Time{})
		if err == nil {
			return nc, nil
		}
		failed = err
	}
	for i, err := range short {
		if err != nil && !over[i] { // the server might have accepted it
			return nil, err
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, &machine.LocalError{What: "local addresses of the server's family", Text: Unsuitable(d.addresses, server)}
}

// Suitable returns those of the addresses from which a server, host:port, can be dialed: those of its family if its host is an address,
// and otherwise all.
func Suitable(addresses []netip.Addr, server string) []netip.Addr {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return addresses
	}
	to, err := netip.ParseAddr(host)
	if err != nil {
		return addresses
	}
	var suitable []netip.Addr
	for _, a := range addresses {
		if family(a) == family(to.Unmap()) {
			suitable = append(suitable, a)
		}
	}
	return suitable
}

// Unsuitable returns the text of the error that none of the addresses is of the server's family.
func Unsuitable(addresses []netip.Addr, server string) string {
	missing := "IPv4"
	if addresses[0].Is4() {
		missing = "IPv6"
	}
	return fmt.Sprintf("cannot dial %s: it needs an %s address in dial-from, which has %s", server, missing, join(addresses))
}

// family returns an index: 0 for IPv4, and 1 for IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// LacksFamily reports whether a lookup, or a dial, has failed because the name has no address of the family that was asked for, or that the local
// address has. Package net says so also for names in the system's file of hosts, and for an AAAA record with an IPv4 address; it does not export
// the error itself.
func LacksFamily(err error) bool {
	var unsuitable *net.AddrError
	return errors.As(err, &unsuitable) && unsuitable.Err == "no suitable address found"
}

func join(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// Parse reads a local address to dial from.
func Parse(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Is4In6() {
		return netip.Addr{}, fmt.Errorf("invalid address %q: use an IP address of this machine, such as 10.0.0.5", text)
	}
	return a, nil
}

// Check returns an error that names the addresses that this machine does not have, and those that it has.
func Check(addresses []netip.Addr) error {
	var missing []netip.Addr
	var errs []error
	for _, a := range addresses {
		// A socket that is bound to the address shows more than a list of addresses: Linux has all of 127.0.0.0/8, and whole networks
		// can be routed to the machine.
		socket, err := net.ListenPacket("udp", net.JoinHostPort(a.String(), "0"))
		switch {
		case err == nil:
			_ = socket.Close()
		case machine.Unaddressed(err):
			missing = append(missing, a)
		default:
			errs = append(errs, fmt.Errorf("the address %v cannot be used: %w", a, err))
		}
	}
	if len(missing) > 0 {
		noun := "address"
		if len(missing) > 1 {
			noun = "addresses"
		}
		errs = append(errs, fmt.Errorf("this machine does not have the %s %s: it has %s", noun, join(missing), here()))
	}
	return errors.Join(errs...)
}

// mostShown is how many addresses of the machine an error names.
const mostShown = 16

// here returns the addresses of this machine's interfaces.
func here() string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return "addresses that cannot be listed: " + err.Error()
	}
	var texts []string
	for _, a := range list {
		if network, ok := a.(*net.IPNet); ok && !slices.Contains(texts, network.IP.String()) {
			texts = append(texts, network.IP.String())
		}
	}
	if len(texts) > mostShown {
		texts = append(texts[:mostShown], fmt.Sprintf("and %d others", len(texts)-mostShown))
	}
	return strings.Join(texts, ", ")
}
