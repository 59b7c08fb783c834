//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// plan is what will be run.
type plan struct {
	name      string // for the report
	scenarios []scenario
	rounds    int
}

// aliases are further names of scenarios, by what they measure.
var aliases = map[string]string{"cpu": "relay", "memory": "relay"}

// notInPlan are the scenarios that the whole plan leaves out.
var notInPlan = []string{"start-tls", "profiles", "silent", "tails"}

// newPlan returns the plan that the flags ask for.
func newPlan(o options) (plan, error) {
	p := plan{name: "whole", rounds: 3}
	duration := 2 * time.Second
	if o.quick {
		p.name, p.rounds, duration = "quick", 1, time.Second
	} else if !o.whole() {
		p.name = "selected"
	}
	if o.rounds > 0 {
		p.rounds = o.rounds
	}
	if o.duration > 0 {
		duration = o.duration
	}
	sessions, err := numbers(o.sessions, "-sessions", 1, 100_000, strconv.Atoi)
	if err != nil {
		return p, err
	}
	sizes, err := numbers(o.sizes, "-size", 24, 16<<20, parseSize)
	if err != nil {
		return p, err
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(o.scenarios, ",") {
		if other, ok := aliases[name]; ok {
			name = other
		}
		wanted[name] = name != ""
	}
	for _, s := range scenarios() {
		if (o.scenarios == "" && slices.Contains(notInPlan, s.name)) || (o.scenarios != "" && !wanted[s.name]) {
			continue
		}
		delete(wanted, s.name)
		s.loads = loadsOf(s.name, o, sessions, sizes, duration)
		if s.name == "tails" && o.tls {
			s = s.overTLS()
		}
		if o.rounds > 0 {
			s.rounds = o.rounds
		}
		p.scenarios = append(p.scenarios, s)
	}
	for name, unknown := range wanted {
		if unknown {
			return p, fmt.Errorf("-scenario: there is no %q; see -h", name)
		}
	}
	return p, nil
}

// roundsOf returns how many rounds a scenario has.
func (p plan) roundsOf(s scenario) int {
	if s.rounds > 0 {
		return min(s.rounds, p.rounds)
	}
	return p.rounds
}

// expected estimates how long the plan takes; rivals returns how many rivals a scenario has. (The estimates fit runs on two
// processors.)
func (p plan) expected(rivals func(scenario) int) time.Duration {
	sum := time.Duration(0)
	for _, s := range p.scenarios {
		for _, l := range s.loads {
			sum += s.expected(l) * time.Duration(rivals(s)*p.roundsOf(s))
		}
	}
	return sum
}

// relayTime estimates how long a run with a steady load takes: the start, connecting the sessions, the load, and the end.
func relayTime(l load) time.Duration {
	return l.duration + time.Second + time.Duration(l.sessions)*400*time.Microsecond
}

// numbers reads a list of numbers from a flag.
func numbers(list, flag string, least, most int, parse func(string) (int, error)) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		n, err := parse(text)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("%s: invalid value %q: use %d to %d", flag, text, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// parseSize reads a number of bytes such as 64B, 1KiB, 3200 or 1MiB.
func parseSize(text string) (int, error) {
	for _, unit := range []struct {
		name  string
		bytes int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"B", 1}} {
		if digits, ok := strings.CutSuffix(text, unit.name); ok {
			n, err := strconv.Atoi(digits)
			if n > 16<<20 {
				return 0, fmt.Errorf("%d is too much", n)
			}
			return n * unit.bytes, err
		}
	}
	return strconv.Atoi(text)
}

// showSize is the reverse of parseSize.
func showSize(bytes int) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return strconv.Itoa(bytes>>20) + " MiB"
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return strconv.Itoa(bytes>>10) + " KiB"
	}
	return strconv.Itoa(bytes) + " B"
}
