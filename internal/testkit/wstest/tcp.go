package wstest

import (
	"net"
	"testing"
)

// Pair returns the two ends of a TCP connection, which are closed when the test ends. The far end has Timeout as its
// deadline, the near end none.
func Pair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	listener := Listen(t)
	defer listener.Close()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near, far = accepted.(*net.TCPConn), dialed.(*net.TCPConn)
	t.Cleanup(func() { _ = far.Close(); _ = near.Close() })
	_ = far.SetDeadline(Deadline())
	return near, far
}

// Listen opens a listener on a free port of the loopback interface. The caller closes it.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// FreeAddress returns a loopback address on which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener := Listen(t)
	defer listener.Close()
	return listener.Addr().String()
}

// RefusingAddress returns a loopback address that refuses connections until the test ends: a client's socket holds its port, so
// that no other socket can get it meanwhile, as it can get that of FreeAddress.
func RefusingAddress(t testing.TB) string {
	t.Helper()
	listener := Listen(t)
	held, err := net.Dial("tcp", listener.Addr().String())
	_ = listener.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return held.LocalAddr().String()
}
