package results

// The names that budgets are about: rivals and scenarios.
const (
	ours          = "wsbouncer"
	cRelay        = "c-relay"
	gorilla       = "gorilla"
	relayScenario = "relay"

	featureScenario = "everything"
	tailScenario    = "tails"
)

// servers are the rivals that budgets are about.
var servers = []string{"nginx", "haproxy", "envoy"}

// budget is a promise, and how it is looked up in a report.
type budget struct {
	text   string
	limits func(*Report) []limit
}

// budgets returns all of them, in the order of the report.
func budgets() (all []budget) {
	add := func(text string, limits func(*Report) []limit) { all = append(all, budget{text, limits}) }

	for _, rival := range servers {
		add("CPU per round trip: at most "+rival+"'s, at every session count and size", ratios(relayScenario, rival, "cpu_us", 1, nil))
	}
	add("CPU per round trip at 1,000 a second: at most nginx's", ratios("light", "nginx", "cpu_us", 1, nil))
	add("CPU per 1 KiB round trip, 500 to 9,000 sessions: at most 1.05 x the C epoll relay's",
		ratios(relayScenario, cRelay, "cpu_us", 1.05, func(c *Cell) bool { return c.Sessions >= 500 && c.usual() }))
	add("CPU per message at 9,000 sessions: at most 1.1 x that at 500", growth)

	add("Memory that a session adds: at most 2.5 KiB", numbers(relayScenario, "added_kb", "KiB", 2, 2.5, many))
	for _, rival := range servers {
		add("Memory that a session adds: below "+rival+"'s", ratios(relayScenario, rival, "added_kb", 1, many))
	}
	for _, rival := range servers {
		add("Memory with all sessions open, including wsbouncer's pool: below "+rival+"'s",
			ratios(relayScenario, rival, "open_mb", 1, func(c *Cell) bool { return c.Sessions >= 500 }))
	}
	add("Memory that a session adds: at least 20 x less than gorilla's", ratios(relayScenario, gorilla, "added_kb", 1.0/20, many))
	add("Memory of a session with its part of the pool: at least 20 x less than gorilla's", ratios(relayScenario, gorilla, "whole_kb", 1.0/20, many))

	add("Clients over TLS, CPU per round trip: at most 0.80 x nginx's", ratios("tls", "nginx", "cpu_us", 0.80, nil))
	add("Clients over TLS, CPU per round trip: at most 0.70 x HAProxy's", ratios("tls", "haproxy", "cpu_us", 0.70, nil))
	add("Clients over TLS: memory that a session adds at most 12 KiB above the limit without", numbers("tls", "added_kb", "KiB", 2, 14.5, many))

	add("Everything on: at most 1.15 x the CPU per round trip of TLS alone", features("everything", "cpu_us", 1.15))

	add("3,000 clients at once: no failure", numbers("burst", "failures", "failures", 0, 0, nil))
	add("3,000 clients at once: peak memory at most 32 MiB", numbers("burst", "peak_mb", "MiB", 1, 32, nil))
	add("3,000 clients at once: the last echo no later than HAProxy's", ratios("burst", "haproxy", "last_echo_ms", 1, nil))
	add("3,000 clients at once over TLS: no failure", numbers("burst-tls", "failures", "failures", 0, 0, nil))
	add("3,000 clients at once over TLS: no failure of the sessions that run meanwhile", numbers("burst-tls", "running_failures", "failures", 0, 0, nil))
	add("3,000 clients at once over TLS: p99 of the sessions that run meanwhile at most 100 ms", numbers("burst-tls", "running_p99_ms", "ms", 1, 100, nil))
	add("Latency on an unloaded machine: p99 within 1.2 x of the C epoll relay's", ratios("latency", cRelay, "p99_ms", 1.2, nil))
	add("Open load, p99.9: at most 1.1 x the best rival's", bestRatios(tailScenario, "p999_ms", 1.1))
	return all
}

// many reports whether there are enough sessions to see what each adds to memory.
func many(c *Cell) bool { return c.Sessions >= 3000 && c.Size == 1024 }
