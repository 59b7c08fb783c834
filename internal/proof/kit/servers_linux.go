package kit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// ErrUnavailable says that this system lacks what a proof needs.
var ErrUnavailable = errors.New("not available here")

// ServerAddress returns the address of the i-th simulated server of a proof, from 0.
func ServerAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 2, 0, byte(i + 1)}) }

// StartServers starts n simulated servers, each at an address of its own and all at one port, so that the kernel can be asked for the connections of
// all at once. The caller closes all that is returned, also with an error.
func StartServers(n int, options func(i int) sim.Options) (servers []*sim.Server, kernel *Kernel, err error) {
	var hosts []string
	for i := range n {
		hosts = append(hosts, ServerAddress(i).String())
	}
	free, err := freeport.Address(hosts...)
	if err != nil {
		return nil, nil, err
	}
	_, port, _ := net.SplitHostPort(free)
	number, _ := strconv.Atoi(port)
	if kernel, err = NewKernel(number); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for i, host := range hosts {
		o := options(i)
		o.Listen = net.JoinHostPort(host, port)
		server, err := sim.Start(o)
		if err != nil {
			return servers, kernel, err
		}
		servers = append(servers, server)
	}
	return servers, kernel, nil
}
