//go:build linux

package main

// The metrics of many scenarios.
var (
	outside = metric{"others", "others' processors", 2, false, false, others}
	cpu     = metric{"cpu_us", "CPU per round trip, µs", 1, true, false, perRoundTrip(totalTime)}
	user    = metric{"user_us", "of it in user mode, µs", 1, false, false, perRoundTrip(userTime)}
	p50     = metric{"p50_ms", "latency p50, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }}
	p99     = metric{"p99_ms", "latency p99, ms", 2, true, false, func(o observation) float64 { return o.load.Latency.P99 }}
	openMiB = metric{"open_mb", "memory with all sessions, MiB", 1, true, false, mib(func(o observation) float64 { return o.open })}
	peakMiB = metric{"peak_mb", "peak resident, MiB", 1, true, false, mib(func(o observation) float64 { return o.peak })}
)

// scenarios returns all scenarios, in the order of the report.
func scenarios() []scenario {
	return []scenario{
		{
			name: "relay", title: "Processor time, memory and latency under load",
			text: "The total rate of messages is the same for few sessions and for many; other message sizes use 500 sessions. " +
				"An asterisk marks a rival that fell behind: its costs per message " +
				"are lower than they would otherwise be, because each wake-up of an overloaded proxy finds more to do.",
			base: "wsbouncer", participants: allBut(oneShot), open: echoServers, observe: observe, expected: relayTime,
			metrics: []metric{
				cpu, user,
				{"added_kb", "memory that a session adds, KiB", 2, true, false, perSession},
				{"whole_kb", "memory of a session with its part of the pool, KiB", 2, true, false, unknown},
				{"before_mb", "memory before any client, MiB", 1, false, false, mib(func(o observation) float64 { return o.before })},
				openMiB, p50, p99, outside,
			},
		},
		{
			name: "light", title: "Light load", text: "500 sessions, 1,000 messages a second in all, which all rivals carry with ease.",
			base: "wsbouncer", participants: allBut(oneShot, gorilla), open: echoServers, observe: observe, expected: relayTime,
			metrics: []metric{cpu, user, p50, p99, outside},
		},
		secureRelay(),
		{
			name: "latency", title: "Latency at low load",
			text: "50 sessions x 20 messages/s of 1 KiB; the table also shows what a proxy adds to a direct connection in the same round.",
			base: "wsbouncer", without: "direct", participants: withDirect(allBut(oneShot, noUring, gorilla)), open: echoServers, observe: observe, expected: relayTime,
			metrics: []metric{
				{"p50_ms", "p50, ms", 3, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
				{"p99_ms", "p99, ms", 3, true, false, func(o observation) float64 { return o.load.Latency.P99 }},
				{"p999_ms", "p99.9, ms", 3, false, false, func(o observation) float64 { return o.load.Latency.P999 }},
				{"added_p50_ms", "added to p50, ms", 3, true, true, func(o observation) float64 { return o.load.Latency.P50 }},
				{"added_p99_ms", "added to p99, ms", 3, true, true, func(o observation) float64 { return o.load.Latency.P99 }},
				{"added_p999_ms", "added to p99.9, ms", 3, false, true, func(o observation) float64 { return o.load.Latency.P999 }},
				outside,
			},
		},
		{
			name: "burst", title: "All clients at once",
			text:   "3,000 clients connect at the same moment, without a ramp, and each sends a message at once. Failures are a result here.",
			rounds: 2, base: "wsbouncer", participants: allBut(oneShot, noUring), open: echoServers, observe: observeBurst, expected: relayTime,
			metrics: []metric{
				{"failures", "failures", 0, false, false, func(o observation) float64 { return o.load.failures() }},
				{"last_echo_ms", "last client's first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.Max }},
				{"median_echo_ms", "median first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.P50 }},
				peakMiB,
			},
		},
		secureBurst(),
		everything(),
		{
			name: "rate", title: "Highest sustained rate",
			text:   "The highest rate at which 500 sessions get every answer, 99 % of them within 50 ms, found by bisection; load generator and backends share the machine.",
			rounds: 2, higher: []string{"per_second"}, base: "wsbouncer", participants: allBut(oneShot, gorilla), open: echoServers, observe: search, expected: searchTime,
			metrics: []metric{
				{"per_second", "messages/s", 0, true, false, func(o observation) float64 { return o.rate }},
				{"cpu_us", "CPU per round trip there, µs", 1, true, false, perRoundTrip(totalTime)},
				{"p50_ms", "p50 there, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
				{"p99_ms", "p99 there, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P99 }},
				peakMiB,
			},
		},
		started("start", "Session start, backends 20 ms away", farServer, "No TLS."),
		started("start-tls", "Session start, backends 20 ms away over TLS", farSecureServer, "TLS between proxy and backend, with a verified certificate."),
		{
			name: "churn", title: "Short sessions",
			text:   "500 clients hold sessions of about one second, with 10 messages of 1 KiB, one after another.",
			rounds: 2, base: "wsbouncer", participants: allBut(noUring), open: echoServers, observe: observeBurst,
			expected: relayTime,
			metrics: []metric{
				{"session_us", "CPU per session, µs", 0, true, false, func(o observation) float64 {
					return float64(o.cpu.Total.Microseconds()) / float64(max(1, o.load.Complete))
				}},
				{"failures", "failures", 0, false, false, func(o observation) float64 { return o.load.failures() }},
				{"first_ms", "first echo, median, ms", 1, true, false, func(o observation) float64 { return o.load.ReplyAgain.P50 }},
				{"slowest_ms", "first echo, slowest, ms", 1, false, false, func(o observation) float64 { return o.load.ReplyAgain.Max }},
				peakMiB,
				outside,
			},
		},
		{
			name: "profiles", title: "Relaying with profiles",
			text: "Clients stream audio, 20 messages of 3,200 bytes a second each, to a simulated Vosk server behind all profiles, which hears silence and answers " +
				"each with one text, so that only the profile differs.",
			base: "echo", participants: profiles, open: voskServer, observe: observe, expected: relayTime,
			metrics: []metric{cpu, outside},
		},
		silent(),
		tails(),
	}
}
