//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/backends"
)

// eachWay is how long data takes to a distant backend, and how long it takes back.
const eachWay = 10 * time.Millisecond

// started returns a scenario of sessions that start one by one.
func started(name, title string, open func(context.Context, *stage) (servers, error), text string) scenario {
	s := scenario{
		name: name, title: title,
		text: "Time from the start of the connection until the first message (3,200 bytes, binary) is answered; sessions start one by one, at least 75 ms apart. The backend is behind " +
			"Toxiproxy, which adds 10 ms in each direction but completes TCP handshakes itself: on a real network, each dial would take 20 ms longer. " + text,
		rounds: 2, base: "wsbouncer", participants: allBut(noUring), open: open, observe: observe,
		expected: func(l load) time.Duration { return l.ramp + 1500*time.Millisecond },
		metrics: []metric{
			{"upgraded_ms", "upgraded, median, ms", 1, true, false, func(o observation) float64 { return o.load.Connect.P50 }},
			{"first_ms", "first reply, median, ms", 1, true, false, func(o observation) float64 { return o.load.FirstEcho.P50 }},
			{"slowest_ms", "first reply, slowest, ms", 1, false, false, func(o observation) float64 { return o.load.FirstEcho.Max }},
		},
	}
	if name == "start" {
		s.participants = withDirect(s.participants)
	}
	return s
}

// echoServers starts three echo servers.
func echoServers(ctx context.Context, st *stage) (servers, error) {
	addresses, stop, err := backends.StartEcho(ctx, st.tools, 3)
	return servers{addresses: addresses, stop: stop}, err
}

// farServer starts an echo server that is far away.
func farServer(ctx context.Context, st *stage) (servers, error) {
	addresses, stop, err := backends.StartEcho(ctx, st.tools, 1)
	if err != nil {
		return servers{}, err
	}
	return moveAway(addresses[0], stop)
}

// farSecureServer starts one that speaks TLS.
func farSecureServer(_ context.Context, st *stage) (servers, error) {
	folder, err := os.MkdirTemp(st.dir, "server-")
	if err != nil {
		return servers{}, err
	}
	address, certificate, stop, err := backends.StartSecureEcho(folder)
	if err != nil {
		return servers{}, err
	}
	b, err := moveAway(address, stop)
	b.ca = certificate
	return b, err
}

// moveAway puts the slow network in front of a server.
func moveAway(address string, stopServer func()) (servers, error) {
	far, stop, err := backends.FarAway(address, eachWay)
	if err != nil {
		stopServer()
		return servers{}, fmt.Errorf("slow network: %w", err)
	}
	return servers{addresses: []string{far}, stop: func() { stop(); stopServer() }}, nil
}
