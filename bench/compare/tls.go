//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// secureRelay returns the scenario of clients that come over TLS.
func secureRelay(outside metric) scenario {
	return scenario{
		name: "tls", title: "Clients over TLS",
		text: "As under load above, but clients speak TLS: 1.3, AES-128-GCM, the same ECDSA certificate (P-256). Backends do not.",
		base: "wsbouncer", participants: serving, open: echoServersForTLS, observe: observe, expected: secureRelayTime,
		metrics: []metric{
			{"cpu_us", "CPU per round trip, µs", 1, true, false, perRoundTrip(totalTime)},
			{"user_us", "of it in user mode, µs", 1, false, false, perRoundTrip(userTime)},
			{"added_kb", "memory that a session adds, KiB", 2, true, false, func(o observation) float64 {
				return (o.open - o.before) / 1024 / float64(max(1, o.load.Connected))
			}},
			{"open_mb", "memory with all sessions, MiB", 1, true, false, mib(func(o observation) float64 { return o.open })},
			{"p50_ms", "latency p50, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
			{"p99_ms", "latency p99, ms", 2, true, false, func(o observation) float64 { return o.load.Latency.P99 }},
			outside,
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
		base: "wsbouncer", participants: serving, open: echoServersForTLS, observe: observeSecureBurst, expected: secureRelayTime,
		metrics: []metric{
			{"failures", "failures", 0, false, false, func(o observation) float64 { return o.load.failures() }},
			{"last_echo_ms", "last client's first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.Max }},
			{"median_echo_ms", "median first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.P50 }},
			{"running_failures", "running sessions that failed", 0, false, false, func(o observation) float64 { return o.running.failures() }},
			{"running_p99_ms", "running sessions, p99, ms", 1, true, false, func(o observation) float64 { return o.running.Latency.P99 }},
			{"running_max_ms", "running sessions, slowest answer, ms", 0, false, false, func(o observation) float64 { return o.running.Latency.Max }},
			{"peak_mb", "peak resident, MiB", 1, true, false, mib(func(o observation) float64 { return o.peak })},
		},
	}
}

// beside is the load of the sessions that run while the burst comes.
var beside = load{sessions: 500, rate: 10, size: usualSize, parallel: 50}

// serving returns the rivals that are set up for TLS towards clients.
func serving(_ context.Context, _ *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	var kept []rivals.Rival
	for _, r := range all {
		if r.Serves && r.Name != "wsbouncer-one-shot" {
			kept = append(kept, r)
		}
	}
	return kept, nil
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
	others.duration = l.duration + 8*time.Second // the burst begins and ends within it
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
