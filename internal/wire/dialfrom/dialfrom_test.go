package dialfrom

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/testkit/dnstest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// addresses parses addresses, which this machine must have.
func addresses(t *testing.T, texts ...string) (list []netip.Addr) {
	t.Helper()
	for _, text := range texts {
		a, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	if err := Check(list); err != nil {
		t.Skip(err) // only Linux has all of 127.0.0.0/8
	}
	return list
}

// absent is an address for documentation (RFC 5737), which no machine should have.
var absent = netip.MustParseAddr("203.0.113.77")

// listen opens a server, which accepts connections by itself.
func listen(t *testing.T, at string) net.Listener {
	t.Helper()
	server, err := net.Listen("tcp", at)
	if err != nil {
		t.Skip(err) // no IPv6
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// hosts are the local hosts of connections.
func hosts(conns []net.Conn) (list []string) {
	for _, nc := range conns {
		host, _, _ := net.SplitHostPort(nc.LocalAddr().String())
		list = append(list, host)
	}
	return list
}

// dial dials so often, and closes the connections when the test ends.
func dial(t *testing.T, d *Dialer, server string, times int) (conns []net.Conn) {
	t.Helper()
	for range times {
		nc, err := d.Dial(t.Context(), net.Dialer{}, server)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		conns = append(conns, nc)
	}
	return conns
}

// The server sees the addresses in turn.
func TestTurns(t *testing.T) {
	server := listen(t, "127.0.0.1:0")
	dial(t, New(addresses(t, "127.0.0.2", "127.0.0.3")), server.Addr().String(), 4)
	var seen []string
	for range 4 {
		nc, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
		seen = append(seen, host)
		_ = nc.Close()
	}
	slices.Sort(seen) // the kernel need not accept them in order
	if want := []string{"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"}; !slices.Equal(seen, want) {
		t.Errorf("the server sees %q; want %q", seen, want)
	}
}

func TestSystemChooses(t *testing.T) {
	server := listen(t, "127.0.0.1:0")
	if got := hosts(dial(t, New(nil), server.Addr().String(), 1)); got[0] != "127.0.0.1" {
		t.Errorf("dialed from %q", got)
	}
}

// An address that the machine has lost is passed over. Without another one, that is no failure of the server.
func TestLostAddress(t *testing.T) {
	server := listen(t, "127.0.0.1:0").Addr().String()
	two := append(addresses(t, "127.0.0.2"), absent)
	if got := hosts(dial(t, New(two), server, 3)); slices.ContainsFunc(got, func(host string) bool { return host != "127.0.0.2" }) {
		t.Errorf("dialed from %q", got)
	}
	_, err := New([]netip.Addr{absent}).Dial(t.Context(), net.Dialer{}, server)
	if err == nil || !machine.Local(err) || !strings.Contains(err.Error(), absent.String()) {
		t.Errorf("%v", err)
	}
}

// A server that refuses one connection is not asked again from another address.
func TestRefused(t *testing.T) {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	dials := 0
	count := net.Dialer{Control: func(string, string, syscall.RawConn) error { dials++; return nil }}
	_, err = New(addresses(t, "127.0.0.2", "127.0.0.3")).Dial(t.Context(), count, address)
	if err == nil || machine.Local(err) || dials != 1 {
		t.Errorf("%d dials, %v", dials, err)
	}
	partly := New(append(addresses(t, "127.0.0.2"), absent))
	for range 2 {
		if _, err := partly.Dial(t.Context(), net.Dialer{}, address); err == nil || machine.Local(err) {
			t.Errorf("with an address that is lost: %v", err)
		}
	}
}

// Only addresses of the server's family are used, and if there are none, the error says so.
func TestFamilies(t *testing.T) {
	four, six := listen(t, "127.0.0.1:0").Addr().String(), listen(t, "[::1]:0").Addr().String()
	both := addresses(t, "127.0.0.2", "::1")
	for server, want := range map[string]string{four: "127.0.0.2", six: "::1"} {
		if got := hosts(dial(t, New(both), server, 2)); !slices.Equal(got, []string{want, want}) {
			t.Errorf("%s is dialed from %q", server, got)
		}
	}
	for _, c := range []struct {
		from         netip.Addr
		server, says string
	}{
		{both[0], six, "cannot dial " + six + ": it needs an IPv6 address in dial-from, which has 127.0.0.2"},
		{both[1], four, "cannot dial " + four + ": it needs an IPv4 address in dial-from, which has ::1"},
	} {
		if _, err := New([]netip.Addr{c.from}).Dial(t.Context(), net.Dialer{}, c.server); err == nil || err.Error() != c.says || !machine.Local(err) {
			t.Errorf("%v; want %s", err, c.says)
		}
	}
}

// name is a server's name.
const name = "stt.test."

// named returns a dialer that looks up the name at a DNS server of the test.
func named(t *testing.T, addresses ...string) net.Dialer {
	t.Helper()
	server := dnstest.Start(t)
	server.Set(name, addresses...)
	return net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Address())
	}}}
}

// A server's name may have addresses of both families, or of one: the other family is tried if one does not answer.
func TestName(t *testing.T) {
	_, port, _ := net.SplitHostPort(listen(t, "127.0.0.1:0").Addr().String()) // nothing listens on ::1
	server := net.JoinHostPort(name, port)
	six, four := addresses(t, "::1")[0], addresses(t, "127.0.0.2", "127.0.0.3")
	for _, with := range []net.Dialer{named(t, "::1", "127.0.0.1"), named(t, "127.0.0.1")} {
		for _, list := range [][]netip.Addr{{six, four[0], four[1]}, {four[0], six}} {
			d := New(list)
			for range 3 {
				nc, err := d.Dial(t.Context(), with, server)
				if err != nil {
					t.Fatal(err)
				}
				if got := hosts([]net.Conn{nc}); !strings.HasPrefix(got[0], "127.0.0.") {
					t.Errorf("dialed from %q", got)
				}
				_ = nc.Close()
			}
		}
	}
	partly := New([]netip.Addr{six, absent})
	for range 2 {
		if _, err := partly.Dial(t.Context(), named(t, "::1", "127.0.0.1"), server); !machine.Local(err) {
			t.Errorf("refused over IPv6, and without an IPv4 address: %v", err)
		}
	}
	_, err := New([]netip.Addr{six}).Dial(t.Context(), named(t, "127.0.0.1"), server)
	if want := "cannot dial " + server + ": it needs an IPv4 address in dial-from, which has ::1"; err == nil || err.Error() != want || !machine.Local(err) {
		t.Errorf("%v; want %s", err, want)
	}
}

// While the other family may do, dialing from one address gets half of the time. If no address of the other family reaches the server, because the
// name has none of it or the machine has lost its own, the rest of the time is for the first one.
func TestHalfOfTheTime(t *testing.T) {
	const limit, half = 2 * time.Second, time.Second
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	lacks := &net.OpError{Op: "dial", Err: &net.AddrError{Err: "no suitable address found", Addr: name}}
	lost := os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
	for name, c := range map[string]struct {
		from    []netip.Addr
		six     error         // of dials from there; nil if they take as long as they may
		answers time.Duration // when the server answers dials from four; 0 for never
		want    string        // where from and for how long it is dialed
		local   bool
		ok      bool
	}{
		"the name has one family": {from: []netip.Addr{four, six}, six: lacks, want: "four 1s, six 0s, four 1s"},
		"the server answers late": {from: []netip.Addr{four, six}, six: lacks, answers: half + half/2, want: "four 1s, six 0s, four 500ms", ok: true},
		"which is known":          {from: []netip.Addr{six, four}, six: lacks, want: "six 0s, four 2s"},
		"an address is lost":      {from: []netip.Addr{four, six}, six: lost, want: "four 1s, six 0s, four 1s", local: true},
		"it is dialed from first": {from: []netip.Addr{six, four}, six: lost, want: "six 0s, four 1s, four 1s", local: true},
		"both families":           {from: []netip.Addr{four, six}, want: "four 1s, six 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				var dials []string
				nc, err := New(c.from).inTurn(ctx, net.JoinHostPort("stt.test", "80"), func(from netip.Addr, until time.Time) (net.Conn, error) {
					start, family := time.Now(), "four"
					defer func() { dials = append(dials, fmt.Sprint(family, " ", time.Since(start))) }()
					if from == six {
						if family = "six"; c.six != nil {
							return nil, c.six
						}
					}
					if until.IsZero() {
						until = began.Add(limit)
					}
					if at := began.Add(c.answers); from == four && c.answers > 0 && at.Before(until) {
						time.Sleep(time.Until(at))
						return new(net.TCPConn), nil
					}
					time.Sleep(time.Until(until))
					return nil, os.ErrDeadlineExceeded
				})
				if got := strings.Join(dials, ", "); got != c.want {
					t.Errorf("dialed from %s; want %s", got, c.want)
				}
				if (nc != nil) != c.ok || (err == nil) != c.ok || err != nil && machine.Local(err) != c.local {
					t.Errorf("%v, %v", nc, err)
				}
			})
		})
	}
}

func TestCheck(t *testing.T) {
	if err := Check(addresses(t, "127.0.0.1")); err != nil {
		t.Error(err)
	}
	err := Check(append(addresses(t, "127.0.0.1"), absent))
	if err == nil || !strings.HasPrefix(err.Error(), "this machine does not have the address 203.0.113.77: it has ") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
	err = Check([]netip.Addr{absent, absent.Next()})
	if err == nil || !strings.HasPrefix(err.Error(), "this machine does not have the addresses 203.0.113.77, 203.0.113.78: it has ") {
		t.Errorf("%v", err)
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"10.0.0.5", "fd00::5", "fe80::5%eth0"} {
		if a, err := Parse(text); err != nil || a.String() != text {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "x", "10.0.0.5:80", "10.0.0.0/8", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:10.0.0.5", " 10.0.0.5"} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), "invalid address ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
