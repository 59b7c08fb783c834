//go:build linux && !portableloop

package loop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// shrinkSendBuffer makes the connection's socket take little that its peer has not received.
func shrinkSendBuffer(t *testing.T, c *Conn) {
	if err := unix.SetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10); err != nil {
		t.Error(err)
	}
}
