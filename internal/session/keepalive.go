package session

import (
	"net"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// keepAlive makes TCP find out within a time, or little more, that a client is gone without a word, or that it reads nothing of what waits
// for it: the connection is then lost with ETIMEDOUT. Without it TCP would take a quarter of an hour, and meanwhile the client would keep
// its server. With a time of 0 it does nothing. Where the system has no TCP_USER_TIMEOUT, only clients are found for which nothing waits.
func keepAlive(nc net.Conn, within time.Duration) {
	tc, ok := nc.(*net.TCPConn)
	if !ok || within <= 0 {
		return
	}
	_ = tc.SetKeepAliveConfig(handshake.KeepAlive(within))
	raw, err := tc.SyscallConn()
	if err == nil {
		err = handshake.SetUserTimeout(raw, within)
	}
	_ = err // the client has left already, which reading tells
}
