//go:build linux

package admission

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The sockets of clients have the limits that find those that are gone.
func TestKeepAlive(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, test := range []struct {
		within            time.Duration
		idle              [2]int // in seconds: least and most
		interval, timeout int    // in seconds, and in milliseconds
	}{
		{0, [2]int{15, 15}, 15, 0}, // package net's own
		{time.Minute, [2]int{10, 20}, 2, 60_000},
		{10 * time.Second, [2]int{1, 3}, 1, 10_000},
		{time.Second, [2]int{1, 1}, 1, 1000},
	} {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		keepAlive(nc, test.within)
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			for option, want := range map[int][2]int{
				unix.TCP_KEEPIDLE: test.idle, unix.TCP_KEEPINTVL: {test.interval, test.interval}, unix.TCP_USER_TIMEOUT: {test.timeout, test.timeout},
			} {
				if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); err != nil || got < want[0] || got > want[1] {
					t.Errorf("with %v: option %d is %d, %v; want %d to %d", test.within, option, got, err, want[0], want[1])
				}
			}
		})
		_, _ = client.Close(), nc.Close()
	}
}
