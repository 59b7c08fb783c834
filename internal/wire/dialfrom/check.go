package dialfrom

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

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
