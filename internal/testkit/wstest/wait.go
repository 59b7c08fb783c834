// Package wstest has what tests of WebSocket connections share: a server and a client that the test plays frame by frame,
// TCP connections, and ways to wait. Only tests may import it. All of it ends the test that it is given when something fails,
// so it is called from the goroutine of that test, unless a comment says otherwise.
package wstest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// Timeout ends a test that hangs. A test that passes never waits for it.
const Timeout = time.Minute

// Eventually waits until the condition holds. It is for what no channel announces, and the only place where tests poll: every millisecond
// at first, and less often the longer it takes, so that a test which waits leaves the processors to others.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for begun := time.Now(); !condition(); {
		waited := time.Since(begun)
		if waited > Timeout {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(min(max(waited/50, time.Millisecond), 10*time.Millisecond))
	}
}

// Receive returns the next value of a channel.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Timeout):
		t.Fatalf("never happened: %s", what)
		panic("not reached")
	}
}

// Deadline returns the time at which Timeout ends that begins now.
func Deadline() time.Time { return time.Now().Add(Timeout) }

// Context returns a context that ends after Timeout, or with the test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

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

// FreeAddress returns a loopback address that refuses connections: nothing listens there unless the test, or a program that it starts, does.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
