//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
	loads "github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// scripted is a scenario whose observations are made by a function.
func scripted(observe func(rival string) (observation, error), names ...string) scenario {
	return scenario{
		name: "scripted", base: "ours", loads: []load{{label: "a", sessions: 1, rate: 100}, {label: "b", sessions: 2, rate: 50}},
		metrics: []metric{{key: "p50", value: func(o observation) float64 { return o.load.Latency.P50 }}},
		participants: func(context.Context, *stage, []rivals.Rival) (participants []rivals.Rival, err error) {
			for _, name := range names {
				r := rivals.Rival{Name: name}
				if name == "absent" {
					r.Missing = "not installed"
				}
				participants = append(participants, r)
			}
			return participants, nil
		},
		open: func(context.Context, *stage) (servers, error) { return servers{stop: func() {}}, nil },
		observe: func(_ context.Context, _ *stage, r rivals.Rival, _ load, _ servers) (observation, error) {
			return observe(r.Name)
		},
	}
}

func TestEveryTurnBeginsWithAnotherRival(t *testing.T) {
	var order []string
	s := scripted(func(rival string) (observation, error) {
		order = append(order, rival)
		return observation{}, nil
	}, "ours", "x", "y")
	result, err := new(stage).runScenario(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, " "), "ours x y x y ours x y ours y ours x"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	for _, c := range result.Cells {
		if len(c.Rounds) != 2 || len(c.Rounds[0]) != 3 {
			t.Errorf("%s has the rounds %v", c.Label, c.Rounds)
		}
	}
}

func TestNoClientIsDropped(t *testing.T) {
	s := scripted(func(rival string) (observation, error) {
		switch rival {
		case "broken":
			return observation{}, errors.New("no luck")
		case "unable":
			return observation{}, fmt.Errorf("%w: no TLS", rivals.ErrSkipped)
		}
		return observation{load: loadResult{Latency: quantiles{P50: 3}}}, nil
	}, "ours", "absent", "broken", "unable")
	result, err := new(stage).runScenario(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	round := result.Cells[1].Rounds[0]
	if round["ours"].Values["p50"] != 3 || round["absent"].Skipped != "not installed" || round["broken"].Error != "no luck" || round["unable"].Skipped == "" {
		t.Errorf("%+v", round)
	}
	if !slices.Equal(result.Rivals, []string{"ours", "absent", "broken", "unable"}) {
		t.Errorf("%v", result.Rivals)
	}
}

func TestWhoIsFarBehindIsNotRunAgain(t *testing.T) {
	runs := map[string]int{}
	s := scripted(func(rival string) (observation, error) {
		runs[rival]++
		answered := map[string]float64{"ours": 10, "slow": 79, "slower": 10, "good": 100}[rival]
		o := observation{load: loadResult{Figures: loads.Figures{MessagesPerSecond: answered, Counts: loads.Counts{Sent: 100}}}}
		o.overload = o.load.overload(load{sessions: 1, rate: 100})
		return o, nil
	}, "ours", "slow", "slower", "good")
	s.loads = s.loads[:1]
	result, err := new(stage).runScenario(t.Context(), s, 3)
	if err != nil {
		t.Fatal(err)
	}
	if runs["ours"] != 3 || runs["good"] != 3 || runs["slow"] != 1 || runs["slower"] != 1 {
		t.Errorf("runs: %v", runs)
	}
	if run := result.Cells[0].Rounds[0]["slower"]; run.Overload != "it answered 10 of 100 messages/s" || run.Values["answered"] != 0.1 {
		t.Errorf("%+v", run)
	}
}

func TestAnInterruptionKeepsWhatThereIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := scripted(func(rival string) (observation, error) {
		if rival == "x" {
			cancel()
		}
		return observation{}, nil
	}, "ours", "x")
	s.expected = relayTime
	report := new(stage).perform(ctx, plan{name: "whole", rounds: 3, scenarios: []scenario{s, s}})
	if len(report.Scenarios) != 1 || report.Interrupted == "" || report.Scenarios[0].Failed != "" {
		t.Errorf("%+v", report)
	}
	if _, ok := report.Scenarios[0].Cells[0].Rounds[0]["ours"]; !ok {
		t.Errorf("%+v", report.Scenarios[0].Cells)
	}
}

func TestAScenarioThatFailsIsNamed(t *testing.T) {
	s := scripted(nil, "ours")
	s.expected = relayTime
	s.open = func(context.Context, *stage) (servers, error) { return servers{}, errors.New("no backends") }
	report := new(stage).perform(t.Context(), plan{rounds: 1, scenarios: []scenario{s}})
	if report.Scenarios[0].Failed != "no backends" {
		t.Errorf("%+v", report.Scenarios)
	}
	if text := report.Tables(); !strings.Contains(text, "It failed: no backends") {
		t.Error(text)
	}
}
