package results

// The rivals that budgets are about.
const (
	ours     = "wsbouncer"
	floor    = "c-relay"
	pythonic = "python"
	gorilla  = "gorilla"
	relaying = "relay"
)

var servers = []string{"nginx", "haproxy", "envoy"}

// budget is a promise, and how it is looked up in a report.
type budget struct {
	text   string
	limits func(*Report) []limit
}

// budgets are all of them, in the order of the report.
func budgets() []budget {
	all := []budget{
		{"CPU per round trip: at least 6 x less than Python's, where Python can carry the load", func(r *Report) []limit {
			return r.compare(ours, pythonic, "cpu_us", 1.0/6, func(c *Cell) bool { return c.trouble(pythonic).overload == "" })
		}},
	}
	for _, rival := range servers {
		all = append(all, budget{"CPU per round trip: at most " + rival + "'s, at every session count and size", func(r *Report) []limit {
			return r.compare(ours, rival, "cpu_us", 1, nil)
		}})
	}
	all = append(
		all,
		budget{"CPU per 1 KiB round trip, 500 to 9,000 sessions: at most 1.05 x the C epoll relay's", func(r *Report) []limit {
			return r.compare(ours, floor, "cpu_us", 1.05, func(c *Cell) bool { return c.Sessions >= 500 && c.Size == 1024 && !c.light() })
		}},
		budget{"CPU per message at 9,000 sessions: at most 1.1 x that at 500", growth},
		budget{"Memory that a session adds: at most 2.5 KiB", func(r *Report) []limit {
			return r.absolute(relaying, "added_kb", "KiB", 2, 2.5, many)
		}},
	)
	for _, rival := range servers {
		all = append(all, budget{"Memory that a session adds: below " + rival + "'s", func(r *Report) []limit {
			return r.compare(ours, rival, "added_kb", 1, many)
		}})
	}
	for _, rival := range servers {
		all = append(all, budget{"Memory with all sessions open, including wsbouncer's pool: below " + rival + "'s", func(r *Report) []limit {
			return r.compare(ours, rival, "open_mb", 1, func(c *Cell) bool { return c.Sessions >= 500 })
		}})
	}
	for _, rival := range []string{gorilla, pythonic} {
		all = append(
			all,
			budget{"Memory that a session adds: at least 20 x less than " + rival + "'s", func(r *Report) []limit {
				return r.compare(ours, rival, "added_kb", 1.0/20, many)
			}},
			budget{"The same with its part of the pool: at least 20 x less than " + rival + "'s", func(r *Report) []limit {
				return r.compare(ours, rival, "whole_kb", 1.0/20, many)
			}},
		)
	}
	return append(
		all,
		budget{"3,000 clients at once: no failure", func(r *Report) []limit { return r.absolute("burst", "failures", "failures", 0, 0, nil) }},
		budget{"3,000 clients at once: peak memory at most 32 MiB", func(r *Report) []limit {
			return r.absolute("burst", "peak_mb", "MiB", 1, 32, nil)
		}},
		budget{"3,000 clients at once: the last echo no later than HAProxy's", func(r *Report) []limit {
			return r.ratios("burst", ours, "haproxy", "last_echo_ms", 1, nil)
		}},
		budget{"Latency on an unloaded machine: p99 within 1.2 x of the C epoll relay's", func(r *Report) []limit {
			return r.ratios("latency", ours, floor, "p99_ms", 1.2, nil)
		}},
	)
}

// many tells whether there are so many sessions that memory can be attributed to them.
func many(c *Cell) bool { return c.Sessions >= 3000 && c.Size == 1024 }
