//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// The loads of the scenario tails: shares of what one processor carries.
var (
	tailSessions = []int{500, 3000, 9000}
	tailShares   = []float64{0.3, 0.6, 0.9}
)

// tailRivals are the proxies whose tails are compared.
var tailRivals = []string{"wsbouncer", "nginx", "haproxy", "envoy"}

// tailed returns those, and variants.
func tailed(_ context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	return slices.DeleteFunc(slices.Clone(all), func(r rivals.Rival) bool {
		return !slices.Contains(tailRivals, r.Name) && !slices.ContainsFunc(st.setUp.Variants, func(v rivals.Variant) bool { return v.Name == r.Name })
	}), nil
}

// tails returns the scenario of latencies under loads that are shares of a processor's capacity.
func tails() scenario {
	return scenario{
		name: "tails", title: "Tails under open load",
		text: "Texts of 1 KiB at 30, 60 and 90 % of what one processor carries: 1 s divided by wsbouncer's processor time per round trip with as many sessions " +
			"and 10,000 messages a second, or what `-capacity` says.",
		base: "wsbouncer", without: "direct", open: echoServers, observe: observe, tune: tune,
		participants: withDirect(tailed),
		expected:     relayTime,
		metrics: []metric{
			{"p50_ms", "p50, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
			{"p99_ms", "p99, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P99 }},
			{"p999_ms", "p99.9, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P999 }},
			cpu, outside,
		},
	}
}

// overTLS returns the scenario with clients over TLS.
func (s scenario) overTLS() scenario {
	s.title += ", clients over TLS"
	s.participants = tailed
	s.open, s.expected = echoServersForTLS, secureRelayTime
	return s
}

// tailLoads returns the loads, whose rates depend on the capacity of a processor; 0: it is not known yet.
func tailLoads(sessions []int, capacity float64) (loads []load) {
	if sessions == nil {
		sessions = tailSessions
	}
	for _, n := range sessions {
		for _, share := range tailShares {
			l := load{sessions: n, size: usualSize, share: share, parallel: 200}
			l.offerShare(capacity)
			loads = append(loads, l)
		}
	}
	return loads
}

// offerShare sets the rate to a share of the round trips a second that a processor carries.
func (l *load) offerShare(capacity float64) { l.rate = round(l.share * capacity / float64(l.sessions)) }

// round keeps three digits after the point.
func round(v float64) float64 { return math.Round(1000*v) / 1000 }

// tune measures the capacity of a processor for each number of sessions, unless it is known, and sets the rates of the loads.
func tune(ctx context.Context, st *stage, loads []load, b servers) error {
	known := map[int]float64{}
	for i := range loads {
		l := &loads[i]
		if l.rate > 0 {
			continue
		}
		if known[l.sessions] == 0 {
			trial := *l
			trial.rate, trial.duration = round(totals[usualSize]/float64(l.sessions)), min(l.duration, 3*time.Second)
			o, err := observe(ctx, st, rivals.WSBouncer("wsbouncer", st.wsbouncer, "echo", rivals.PoolSize), trial, b)
			if err != nil {
				return fmt.Errorf("the run that measures what a processor carries with %d sessions: %w", l.sessions, err)
			}
			known[l.sessions] = 1e6 / cpu.value(o)
			log.Printf("with %d sessions, a processor carries %.0f round trips/s (overload: %q)", l.sessions, known[l.sessions], o.overload)
		}
		l.offerShare(known[l.sessions])
	}
	return nil
}
