//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// scenario is a load and what is of interest under it.
type scenario struct {
	name    string
	title   string
	load    load
	memory  bool // read memory as well
	base    string
	without string // the rival whose numbers are subtracted where a metric says so
	rivals  func(toolbox, options) []rival
	metrics []metric
	strict  bool // a load that had trouble makes the run a failure
	idle    bool // there is no load at all
}

// metric is one number of an observation. What something adds is taken from the
// same round's run without it.
type metric struct {
	key    string // in JSON
	title  string // in tables
	digits int
	ratio  bool // compare with the base rival
	added  bool // subtract what the run without had
	value  func(observation) float64
}

func scenarios() []scenario {
	outside := metric{"others", "others' processors", 2, false, false, func(o observation) float64 { return o.others }}
	relayed := []metric{
		{"cpu_us", "CPU per round trip, µs", 1, true, false, perRoundTrip(func(c child.CPU) time.Duration { return c.Total })},
		{"user_share", "user share", 2, false, false, func(o observation) float64 {
			return float64(o.cpu.User) / float64(max(1, o.cpu.User+o.cpu.System))
		}},
		{"p50_ms", "p50, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
		{"p99_ms", "p99, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P99 }},
		outside,
	}
	withDirect := func(t toolbox, o options) []rival { return slices.Concat([]rival{direct()}, proxies(t, o)) }
	return []scenario{
		{
			name: "cpu", title: "Processor time of the proxy", base: "wsbouncer", strict: true,
			load: load{sessions: 500, rate: 20}, rivals: proxies, metrics: relayed,
		}, {
			name: "memory", title: "Memory that sessions add", base: "wsbouncer", strict: true, memory: true,
			load: load{sessions: 3000, rate: 1}, rivals: proxies,
			metrics: []metric{
				{"added_kb", "added per session, KiB", 2, true, false, func(o observation) float64 {
					return (o.open - o.before) / 1024 / float64(o.load.Connected)
				}},
				{"before_mb", "before any client, MiB", 1, false, false, mib(func(o observation) float64 { return o.before })},
				{"open_mb", "with sessions, MiB", 1, true, false, mib(func(o observation) float64 { return o.open })},
				{"peak_mb", "peak resident, MiB", 1, false, false, mib(func(o observation) float64 { return o.peak })},
			},
		}, {
			name: "burst", title: "All clients at once", base: "wsbouncer", memory: true,
			load: load{sessions: 3000, rate: 1}, rivals: proxies,
			metrics: []metric{
				{"failures", "failures", 0, false, false, func(o observation) float64 {
					return float64(o.load.ConnectFailures + o.load.Failed)
				}},
				{"last_echo_ms", "last client's first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.Max }},
				{"median_echo_ms", "median first echo, ms", 0, true, false, func(o observation) float64 { return o.load.FirstEcho.P50 }},
				{"peak_mb", "peak resident, MiB", 1, true, false, mib(func(o observation) float64 { return o.peak })},
			},
		}, {
			name: "latency", title: "Latency at low load", base: "wsbouncer", without: "direct", strict: true,
			load: load{sessions: 50, rate: 20}, rivals: withDirect,
			metrics: []metric{
				{"p50_ms", "p50, ms", 3, true, false, func(o observation) float64 { return o.load.Latency.P50 }},
				{"p99_ms", "p99, ms", 3, true, false, func(o observation) float64 { return o.load.Latency.P99 }},
				{"added_p50_ms", "added p50, ms", 3, true, true, func(o observation) float64 { return o.load.Latency.P50 }},
				{"added_p99_ms", "added p99, ms", 3, true, true, func(o observation) float64 { return o.load.Latency.P99 }},
				outside,
			},
		}, {
			name: "idle", title: "Idle pooled connections", base: "wsbouncer", without: "few", idle: true, rivals: idlePools,
			metrics: []metric{
				{"full_ms", "until all are idle, ms", 0, false, false, func(o observation) float64 { return float64(o.filled.Milliseconds()) }},
				{"pss_mb", "memory, MiB", 1, false, false, mib(func(o observation) float64 { return o.open })},
				{"each_kb", "memory of each, KiB", 2, false, true, func(o observation) float64 { return o.open / 1024 / idleConnections }},
				{"cpu_percent", "processor, %", 2, false, false, func(o observation) float64 { return 100 * o.busy }},
				outside,
			},
		}, {
			name: "waiting", title: "How a Go event loop waits", base: "c-relay", strict: true,
			load: load{sessions: 500, rate: 20}, rivals: waitingRelays, metrics: relayed,
		},
	}
}

func perRoundTrip(part func(child.CPU) time.Duration) func(observation) float64 {
	return func(o observation) float64 {
		return float64(part(o.cpu)) / float64(time.Microsecond) / float64(o.load.Received)
	}
}

func mib(bytes func(observation) float64) func(observation) float64 {
	return func(o observation) float64 { return bytes(o) / (1 << 20) }
}

// findScenario returns a scenario with the flags' changes to it.
func findScenario(name string, o options) (scenario, error) {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenario{}, fmt.Errorf("unknown scenario %q", name)
	}
	s := all[i]
	s.load.size, s.load.duration = o.size, o.duration
	if o.sessions > 0 {
		s.load.sessions = o.sessions
	}
	if o.rate > 0 {
		s.load.rate = o.rate
	}
	if o.base != "" {
		s.base = o.base
	}
	return s, nil
}
