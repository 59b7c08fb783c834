//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// outcome is all that a scenario gave.
type outcome struct {
	scenario scenario
	rivals   []rival
	rounds   []round
}

// round is one run of each rival, by name.
type round map[string]run

// run is one rival's numbers in one round, by metric, or why it has none.
type run struct {
	Values map[string]float64 `json:"values,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// runScenario runs every rival in turn, round by round, so that whatever else
// the machine does meets all of them. Each round begins with another rival.
func runScenario(ctx context.Context, tools toolbox, s scenario, rivals []rival, o options) (outcome, error) {
	result := outcome{scenario: s, rivals: rivals}
	backends, stop, err := startBackends(ctx, tools, 3)
	if err != nil {
		return result, err
	}
	defer stop()
	for n := range o.rounds {
		shift := n % len(rivals)
		seen := map[string]observation{}
		now := round{}
		result.rounds = append(result.rounds, now)
		for _, r := range slices.Concat(rivals[shift:], rivals[:shift]) {
			if r.missing != "" {
				continue
			}
			began := time.Now()
			observed, err := observeCalmly(ctx, tools, r, s, backends, o.calm)
			if ctx.Err() != nil {
				s.evaluate(now, seen)
				return result, ctx.Err()
			}
			if err != nil {
				now[r.name] = run{Error: err.Error()}
				log.Printf("%s %d/%d %s: failed: %v", s.name, n+1, o.rounds, r.name, err)
				continue
			}
			seen[r.name] = observed
			log.Printf("%s %d/%d %s: %s (%.0f s)", s.name, n+1, o.rounds, r.name, s.brief(observed), time.Since(began).Seconds())
		}
		s.evaluate(now, seen)
	}
	return result, nil
}

// observeCalmly repeats an observation that something else on the machine
// disturbed, and keeps the calmest. A failure in calm counts at once.
func observeCalmly(ctx context.Context, tools toolbox, r rival, s scenario, backends []string, calm float64) (observation, error) {
	const attempts = 3
	var best observation
	var bestErr error
	for n := range attempts {
		observed, err := s.observe(ctx, tools, r, backends)
		if n == 0 || observed.others < best.others {
			best, bestErr = observed, err
		}
		if calm == 0 || observed.others <= calm || ctx.Err() != nil {
			break
		}
	}
	return best, bestErr
}

// observe runs one rival once.
func (s scenario) observe(ctx context.Context, tools toolbox, r rival, backends []string) (observation, error) {
	if s.idle {
		return observeIdle(ctx, tools, r, s.load, backends)
	}
	observed, err := observe(ctx, tools, r, s.load, backends, s.memory)
	if err == nil && s.strict {
		err = observed.load.trouble()
	}
	return observed, err
}

// evaluate turns a round's observations into its metrics.
func (s scenario) evaluate(into round, seen map[string]observation) {
	without, have := seen[s.without]
	for name, observed := range seen {
		values := map[string]float64{}
		for _, m := range s.metrics {
			value := m.value(observed)
			if m.added {
				if !have || name == s.without {
					continue
				}
				value -= m.value(without)
			}
			values[m.key] = value
		}
		into[name] = run{Values: values}
	}
}

// brief is the first metric, for the progress on standard error.
func (s scenario) brief(o observation) string {
	m := s.metrics[0]
	return fmt.Sprintf("%s %.*f", m.title, m.digits, m.value(o))
}

// startBackends starts echo servers and returns their addresses.
func startBackends(ctx context.Context, tools toolbox, count int) (addresses []string, stop func(), err error) {
	var started []*child.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	if addresses, err = child.FreeAddresses(count); err != nil {
		return nil, nil, err
	}
	for _, address := range addresses {
		p, err := child.Start([]string{tools.tools, "sim", "--listen", address, "--protocol", "echo", "--quiet"})
		if err == nil {
			started = append(started, p)
			err = child.WaitFor(ctx, p, "backend", 10*time.Second, child.Accepts(address))
		}
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("backend: %w", err)
		}
	}
	return addresses, stop, nil
}
