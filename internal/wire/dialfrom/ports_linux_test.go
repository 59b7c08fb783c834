package dialfrom

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// few returns a dialer whose connections have few local ports, as if the system had no others.
func few(t *testing.T) net.Dialer {
	t.Helper()
	var low, high uint32 // IP_LOCAL_PORT_RANGE (since Linux 6.3) narrows the system's range
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		t.Fatal(err)
	}
	low = high - 15
	return net.Dialer{Control: func(_, _ string, c syscall.RawConn) (set error) {
		err := c.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, int(high<<16|low))
		})
		return errors.Join(err, set)
	}}
}

// exhaust dials until no port is left, and returns how many connections there are of each local host.
func exhaust(t *testing.T, list []netip.Addr, server string) map[string]int {
	t.Helper()
	with, d, count := few(t), New(list), make(map[string]int)
	for {
		nc, err := d.Dial(t.Context(), with, server)
		switch {
		case errors.Is(err, unix.ENOPROTOOPT):
			t.Skip("this kernel cannot narrow the ports of one socket")
		case err != nil:
			if !machine.Local(err) || !strings.Contains(err.Error(), list[0].String()) && len(list) == 1 {
				t.Errorf("without a port: %v", err)
			}
			return count
		}
		t.Cleanup(func() { _ = nc.Close() })
		if count[hosts([]net.Conn{nc})[0]]++; count[hosts([]net.Conn{nc})[0]] > 16 {
			t.Fatalf("more connections than ports: %v", count)
		}
	}
}

// Each local address has all ports towards each server.
func TestPorts(t *testing.T) {
	for _, c := range []struct{ at, first, second string }{{"127.0.0.1:0", "127.0.0.2", "127.0.0.3"}, {"[::1]:0", "::1", ""}} {
		list := addresses(t, c.first)
		server, other := listen(t, c.at).Addr().String(), listen(t, c.at).Addr().String()
		one := exhaust(t, list, server)[c.first]
		if one < 2 { // some of the 16 may be in use for something else
			t.Fatalf("%d connections from one address", one)
		}
		if again := exhaust(t, list, other)[c.first]; again < one/2 {
			t.Errorf("%d connections from %s to one server, but %d to another", one, c.first, again)
		}
		if c.second == "" {
			continue
		}
		third := listen(t, c.at).Addr().String()
		two := exhaust(t, append(list, addresses(t, c.second)...), third)
		if two[c.first] < one/2 || two[c.second] < 2 {
			t.Errorf("%d connections from one address, and from two %v", one, two)
		}
	}
}

// deaf listens on ::1 at a port, and does not answer: its queue is full.
func deaf(t *testing.T, port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err) // no IPv6
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	at := &unix.SockaddrInet6{Port: port, Addr: netip.IPv6Loopback().As16()}
	if err := errors.Join(unix.Bind(fd, at), unix.Listen(fd, 0)); err != nil {
		t.Skip(err)
	}
	for range 2 { // Linux takes one more than the length of the queue
		client, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(client) })
		if err := unix.Connect(client, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
	}
}

// A family that does not answer leaves time for the other one.
func TestSilentFamily(t *testing.T) {
	server := listen(t, "127.0.0.1:0").Addr().(*net.TCPAddr)
	deaf(t, server.Port)
	both := named(t, "::1", "127.0.0.1")
	dial := func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return New(addresses(t, "::1", "127.0.0.2")).Dial(ctx, both, fmt.Sprintf("%s:%d", name, server.Port))
	}
	nc, err := dial()
	for tries := 1; errors.Is(err, context.DeadlineExceeded) && tries < 3; tries++ { // the machine may have stood still
		nc, err = dial()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := hosts([]net.Conn{nc}); got[0] != "127.0.0.2" {
		t.Errorf("dialed from %q", got)
	}
}
