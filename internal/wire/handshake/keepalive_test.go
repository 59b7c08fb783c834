package handshake

import (
	"net"
	"testing"
	"time"
)

// Several probes in a row may be lost, and the peer is not taken to be gone as long as one of many gets through.
func TestKeepAliveProbesOften(t *testing.T) {
	for _, test := range []struct {
		within   time.Duration
		place    float64
		idle     time.Duration
		interval time.Duration
		count    int
	}{
		{time.Second, 0, time.Second, time.Second, 1},
		{time.Second, 1, time.Second, time.Second, 1},
		{10 * time.Second, 0, time.Second, time.Second, 9},
		{10 * time.Second, 1, 3 * time.Second, time.Second, 7},
		{30 * time.Second, 0, 5 * time.Second, time.Second, 25},
		{30 * time.Second, 1, 10 * time.Second, time.Second, 20},
		{time.Minute, 0, 10 * time.Second, 2 * time.Second, 25},
		{time.Minute, 0.5, 15 * time.Second, 2 * time.Second, 22},
		{time.Minute, 1, 20 * time.Second, 2 * time.Second, 20},
		{time.Hour, 0, 10 * time.Minute, 2 * time.Minute, 25},
		{720 * time.Hour, 1, 32767 * time.Second, 32767 * time.Second, 78}, // Linux takes no longer times
	} {
		want := net.KeepAliveConfig{Enable: true, Idle: test.idle, Interval: test.interval, Count: test.count}
		if got := keepAlive(test.within, test.place); got != want {
			t.Errorf("within %v, at %v: got %+v, want %+v", test.within, test.place, got, want)
		}
	}
}

// Connections that were opened at the same moment are not all probed at the same moment.
func TestKeepAliveSpreadsProbes(t *testing.T) {
	const connections = 1000
	at := make(map[time.Duration]int)
	for range connections {
		at[KeepAlive(time.Minute).Idle]++
	}
	for idle, n := range at {
		if n > connections/4 {
			t.Errorf("%d of %d connections are probed after %v: all: %v", n, connections, idle, at)
		}
	}
}
