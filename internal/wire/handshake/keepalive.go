package handshake

import (
	"math/rand/v2"
	"net"
	"time"
)

// How often TCP probes a connection within the time after which its peer is taken to be gone. TCP does not send a lost probe again, and
// one answer is enough, so a probe that was not answered is soon followed by another. Connections that were opened at the same moment are
// not to be probed at the same moment: thousands of probes at once overflow the queue through which a host sends packets to itself, to its
// containers and to its virtual machines (net.core.netdev_max_backlog), and the kernel drops the rest.
const (
	// TCP sends the first probe when the peer has been silent for between 1/probedSoonest and 1/probedLatest of the time.
	probedSoonest, probedLatest = 6, 3
	// While the peer does not answer, TCP sends a probe each 1/probedAgain of the time.
	probedAgain = 30
	// longestProbe is the longest time between two probes that Linux accepts.
	longestProbe = 32767 * time.Second
)

// KeepAlive returns how TCP is to probe a connection whose peer is taken to be gone when it has acknowledged nothing for a time, at least a
// second (see [SetUserTimeout]). It differs at random between connections. Any goroutine may call it.
func KeepAlive(within time.Duration) net.KeepAliveConfig { return keepAlive(within, rand.Float64()) }

// keepAlive is KeepAlive with the place of the first probe, from 0 to 1, between the soonest and the latest.
func keepAlive(within time.Duration, place float64) net.KeepAliveConfig {
	soonest, latest := within/probedSoonest, within/probedLatest
	idle := wholeSeconds(soonest + time.Duration(place*float64(latest-soonest)))
	interval := wholeSeconds(within / probedAgain)
	return net.KeepAliveConfig{
		Enable: true, Idle: idle, Interval: interval,
		Count: max(int((within-idle)/interval), 1), // counts only where the system has no TCP_USER_TIMEOUT
	}
}

// wholeSeconds returns a time between probes in TCP's unit.
func wholeSeconds(d time.Duration) time.Duration {
	return min(max(d.Truncate(time.Second), time.Second), longestProbe)
}
