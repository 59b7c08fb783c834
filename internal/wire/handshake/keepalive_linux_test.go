package handshake

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection to a server that is at rest does not end because one probe was lost: there are many within UserTimeout.
func TestDialKeepsAlive(t *testing.T) {
	target := scripted(t, upgraded(""), nil)
	target.UserTimeout = 30 * time.Second
	established := dialed(t, target)
	raw, err := established.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(name int) (value int) {
		err := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name) })
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	idle, interval, timeout := option(unix.TCP_KEEPIDLE), option(unix.TCP_KEEPINTVL), option(unix.TCP_USER_TIMEOUT)
	if timeout != 30_000 || idle < 5 || idle > 10 || interval != 1 {
		t.Errorf("probed after %d s and then every %d s, lost after %d ms", idle, interval, timeout)
	}
}
