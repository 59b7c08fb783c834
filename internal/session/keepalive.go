package session

import (
	"net"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
)

// keepAlives is how many keepalive probes TCP sends within ClientTimeout.
const keepAlives = 4

// usualKeepAlive is how often package net makes TCP probe the connections that it accepts.
const usualKeepAlive = 15 * time.Second

// keepAlive makes TCP find out within a time, or little more, that a client is gone without a word, or that it reads nothing of what waits
// for it: the connection is then lost with ETIMEDOUT. Without it TCP would take a quarter of an hour, and meanwhile the client would keep
// its server. With a time of 0 it does nothing. Where the system has no TCP_USER_TIMEOUT, only clients are found for which nothing waits.
func keepAlive(nc net.Conn, within time.Duration) {
	tc, ok := nc.(*net.TCPConn)
	if !ok || within <= 0 {
		return
	}
	if every := within / keepAlives; every != usualKeepAlive { // in whole seconds
		every = max(every.Truncate(time.Second), time.Second)
		_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: keepAlives})
	}
	raw, err := tc.SyscallConn()
	if err == nil {
		err = handshake.SetUserTimeout(syscall.RawConn(raw), within)
	}
	_ = err // the client has left already, which reading tells
}
