package results

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cell returns a cell in which each rival has these values of one metric, a round for each.
func cell(sessions int, key string, of map[string][]float64) Cell {
	c := Cell{Label: fmt.Sprintf("%d x 1 KiB", sessions), Sessions: sessions, Rate: 10_000 / float64(sessions), Size: 1024, Seconds: 2}
	for name, values := range of {
		for n, v := range values {
			for len(c.Rounds) <= n {
				c.Rounds = append(c.Rounds, Round{})
			}
			c.Rounds[n][name] = Run{Values: map[string]float64{key: v}}
		}
	}
	return c
}

// fixture is a report of the relay scenario under two loads.
func fixture() *Report {
	few := cell(500, "cpu_us", map[string][]float64{"wsbouncer": {10, 40, 20}, "nginx": {20, 60, 80}, "c-relay": {11, 39, 20}})
	few.Rounds[0]["haproxy"] = Run{Error: "no | luck"}
	few.Rounds[1]["haproxy"] = Run{Values: map[string]float64{"cpu_us": 20}}
	for _, round := range few.Rounds {
		round["caddy"] = Run{Skipped: "not installed"}
		round["python"] = Run{Values: map[string]float64{"cpu_us": 100, "answered": 0.4}, Overload: "it answered 4000 of 10000 messages/s"}
	}
	many := cell(9000, "cpu_us", map[string][]float64{"wsbouncer": {11, 48, 22}, "nginx": {22, 50, 88}, "c-relay": {10, 40, 20}})
	s := Scenario{
		Name: "relay", Title: "Under load", Text: "A text.", Base: "wsbouncer",
		Rivals:  []string{"wsbouncer", "c-relay", "nginx", "haproxy", "caddy", "python"},
		Metrics: []Metric{{Key: "cpu_us", Title: "CPU, µs", Digits: 1, Ratio: true}},
		Cells:   []Cell{few, many},
	}
	r := &Report{
		Commit: "v0.1.0-3-gabc", Time: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Command: "make bench", Plan: "whole", Took: 90, Base: "wsbouncer",
		Machine:   Machine{Processors: 2, Model: "A processor", Memory: 8, Kernel: "Linux 6.1", System: "Debian", Go: "go1.26"},
		Scenarios: []Scenario{s},
	}
	for _, name := range s.Rivals {
		r.Rivals = append(r.Rivals, Rival{Name: name, Title: "the " + name, Version: "1.2"})
	}
	r.Rivals[4].Missing, r.Rivals[4].Version = "not installed", ""
	return r
}
