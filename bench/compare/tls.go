//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// secureRelay returns the scenario of clients that come over TLS.
func secureRelay() scenario {
	return scenario{
		name: "tls", title: "Clients over TLS",
		text: "As under load above, but clients speak TLS: 1.3, AES-128-GCM, the same ECDSA certificate (P-256). Backends do not.",
		base: "wsbouncer", participants: serving, open: echoServersForTLS, observe: observe, expected: secureRelayTime,
		metrics: []metric{
			cpu, user,
			{"added_kb", "memory that a session adds, KiB", 2, true, false, func(o observation) float64 {
				return (o.open - o.before) / 1024 / float64(max(1, o.load.Connected))
			}},
			openMiB, p50, p99, outside,
		},
	}
}

// secureBurst returns the scenario of clients that all come over TLS at once, while others are served.
func secureBurst() scenario {
	return scenario{
		name: "burst-tls", title: "All clients at once over TLS",
		text: fmt.Sprintf("3,000 clients connect over TLS at the same moment, without a ramp or tickets of earlier connections, and each sends a message at once. "+
			"Meanwhile %d others, over TLS too, send %d messages/s each and wait for the answers; the clients' part of the handshakes takes as much of the machine as the proxy's. "+
			"Failures are a result here.", beside.sessions, int(beside.rate)),
		rounds: 2, base: "wsbouncer", participants: serving, open: echoServersForTLS, observe: observeSecureBurst,
		expected: func(l load) time.Duration { return secureRelayTime(l) + burstMargin },
		metrics: []metric{
			{"failures", "failures", 0, false, false, func(o observation) float64 { return o.load.failures() }},
			{"last_echo_ms", "last client's first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.Max }},
			{"median_echo_ms", "median first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.P50 }},
			{"running_failures", "running sessions that failed", 0, false, false, func(o observation) float64 { return o.running.failures() }},
			{"running_p99_ms", "running sessions, p99, ms", 1, true, false, func(o observation) float64 { return o.running.Latency.P99 }},
			{"running_max_ms", "running sessions, slowest answer, ms", 0, false, false, func(o observation) float64 { return o.running.Latency.Max }},
			peakMiB,
		},
	}
}

// beside is the load of the sessions that run while the burst comes.
var beside = load{sessions: 500, rate: 10, size: usualSize, parallel: 50}

// burstMargin is how long they run before and after the burst, at least.
const burstMargin = 6 * time.Second

// serving returns the rivals that are set up for TLS towards clients.
func serving(ctx context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	kept, err := allBut(oneShot, noUring)(ctx, st, all)
	return slices.DeleteFunc(kept, func(r rivals.Rival) bool { return !r.Serves }), err
}

// echoServersForTLS starts echo servers, and makes a certificate for the proxies.
func echoServersForTLS(ctx context.Context, st *stage) (servers, error) {
	certificate, err := rivals.NewCertificate(st.dir)
	if err != nil {
		return servers{}, err
	}
	b, err := echoServers(ctx, st)
	b.serves = certificate
	return b, err
}

// secureRelayTime estimates how long a run takes. A handshake takes about a millisecond of both ends.
func secureRelayTime(l load) time.Duration {
	return relayTime(l) + time.Duration(l.sessions)*600*time.Microsecond
}

// observeSecureBurst starts a rival, has sessions run on it, and lets the clients of the load come at once.
func observeSecureBurst(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, l.sessions+beside.sessions, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	type ended struct {
		result loadResult
		err    error
	}
	running := make(chan ended, 1)
	began := make(chan struct{})
	others := beside
	others.duration = l.duration + burstMargin // the burst begins and ends within it
	go func() {
		result, err := offer(ctx, w.address, w.ca, others, func() { close(began) }, func() {})
		running <- ended{result, err}
	}()
	select {
	case <-began:
	case e := <-running:
		return observation{}, cmp.Or(e.err, fmt.Errorf("the sessions that run meanwhile never became steady: errors %v", e.result.Errors))
	}
	err = w.offer(ctx, l)
	e := <-running
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.running = e.result
	return w.seen, cmp.Or(err, w.failed, e.err)
}
