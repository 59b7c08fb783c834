package kit

import (
	"net"
	"net/netip"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The kernel tells of a connection from when it waits in the accept queue until its end has arrived, and from where it came.
func TestSockets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.2.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().(*net.TCPAddr)
	k, err := NewKernel(address.Port)
	if err != nil {
		t.Skip(err)
	}
	defer k.Close()
	look := func() (counted int, states []byte) {
		all, err := k.Sockets(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Server != netip.MustParseAddr("127.2.0.9") { // another test's, of the same port at another address
				continue
			}
			if s.Source.Addr() != netip.MustParseAddr("127.1.0.7") {
				t.Errorf("got %+v", s)
			}
			if s.Counts() {
				counted++
			}
			states = append(states, s.State)
		}
		return counted, states
	}
	if n, states := look(); n != 0 {
		t.Errorf("before: %d, %v", n, states)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, 7)}}
	client, err := dialer.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	if n, states := look(); n != 1 {
		t.Errorf("in the accept queue: %d, %v", n, states)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if n, states := look(); n != 1 {
		t.Errorf("accepted: %d, %v", n, states)
	}
	_ = client.Close()
	wstest.Eventually(t, "the end has arrived", func() bool {
		n, states := look()
		return n == 0 && len(states) == 1 && states[0] == CloseWait
	})
}

// A connection that ended while the kernel made its list, and one that began, are not counted together.
func TestBoth(t *testing.T) {
	first := []Socket{{cookie: 1, State: Established}, {cookie: 2, State: Established}, {cookie: 3, State: Established}}
	second := []Socket{{cookie: 2, State: Established}, {cookie: 3, State: CloseWait}, {cookie: 4, State: Established}}
	if all := Both(first, second); len(all) != 1 || all[0].cookie != 2 {
		t.Errorf("got %+v", all)
	}
}

func BenchmarkSockets(b *testing.B) {
	k, err := NewKernel(9)
	if err != nil {
		b.Skip(err)
	}
	defer k.Close()
	var all []Socket
	for b.Loop() {
		if all, err = k.Sockets(all[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
