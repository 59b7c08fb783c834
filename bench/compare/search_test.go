//go:build linux

package main

import (
	"errors"
	"testing"

	"github.com/wsbouncer/wsbouncer/bench/results"
	loads "github.com/wsbouncer/wsbouncer/internal/lab/load"
)

func TestHighestRate(t *testing.T) {
	for _, limit := range []float64{250, 900, 8000, 8001, 31_000, 1e6} {
		trials := 0
		got, err := highestRate(8000, 200, 1.1, func(rate float64) (answer, error) {
			trials++
			if rate > limit {
				return missed, nil
			}
			return carried, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got > limit || got < limit/1.1 || trials > 20 {
			t.Errorf("limit %g: found %g in %d trials", limit, got, trials)
		}
	}
	if _, err := highestRate(8000, 200, 1.1, func(float64) (answer, error) { return failed, nil }); err == nil {
		t.Error("a rival that carries nothing has a rate")
	}
	broken := errors.New("broken")
	if _, err := highestRate(8000, 200, 1.1, func(float64) (answer, error) { return carried, broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestANearMissIsTriedAgain(t *testing.T) {
	for first, want := range map[answer]float64{missed: 8000, failed: 4000} {
		trials := 0
		got, err := highestRate(8000, 200, 2.1, func(rate float64) (answer, error) {
			trials++
			switch {
			case trials == 1:
				return first, nil
			case rate > 8000:
				return failed, nil
			}
			return carried, nil
		})
		if err != nil || got != want {
			t.Errorf("found %g (%v), want %g", got, err, want)
		}
	}
}

// answered returns the figures of ten sessions, all of whose messages were answered.
func answered(messages int64) loads.Figures {
	return loads.Figures{Connections: 10, MessagesPerSecond: float64(messages), Counts: loads.Counts{Connected: 10, Sent: messages, Received: messages}}
}

func TestJudge(t *testing.T) {
	l := load{sessions: 10, rate: 100}
	r := loadResult{Figures: answered(1000), Latency: quantiles{P99: 60}}
	if got := judge(r, l); got != missed {
		t.Errorf("late answers: %v", got)
	}
	r.Latency.P99 = 40
	if got := judge(r, l); got != carried {
		t.Errorf("all answers: %v", got)
	}
	r.MessagesPerSecond = 800
	if got := judge(r, l); got != failed {
		t.Errorf("few answers: %v", got)
	}
}

func TestWhatALoadTells(t *testing.T) {
	l := load{sessions: 10, rate: 100}
	good := loadResult{Figures: answered(1000), Latency: quantiles{P99: 40, Max: 900}}
	if good.broken() != nil || good.overload(l) != "" || !promptly(good, l) {
		t.Errorf("a good load: %v, %q", good.broken(), good.overload(l))
	}
	for what, change := range map[string]func(*loadResult){
		"slow":         func(r *loadResult) { r.Latency.P99 = 51 },
		"very slow":    func(r *loadResult) { r.Latency.Max = 1001 },
		"lost one":     func(r *loadResult) { r.Lost = 1 },
		"fell behind":  func(r *loadResult) { r.MessagesPerSecond = 940 },
		"one missing":  func(r *loadResult) { r.Connected, r.ConnectFailures = 9, 1 },
		"mixed up one": func(r *loadResult) { r.Mixed = 1 },
	} {
		bad := good
		change(&bad)
		if promptly(bad, l) {
			t.Errorf("a load that %s was carried", what)
		}
	}
}

func TestEvaluateSubtractsTheRunWithout(t *testing.T) {
	latency := func(p50 float64) observation { return observation{load: loadResult{Latency: quantiles{P50: p50}}} }
	p50 := func(o observation) float64 { return o.load.Latency.P50 }
	turn := turn{scenario: scenario{without: "direct", metrics: []metric{{key: "p50", value: p50}, {key: "added", added: true, value: p50}}}}
	evaluate := func(seen map[string]observation) results.Round {
		round := results.Round{}
		turn.evaluate(round, seen)
		return round
	}
	got := evaluate(map[string]observation{"direct": latency(2), "proxy": latency(5)})
	if got["proxy"].Values["p50"] != 5 || got["proxy"].Values["added"] != 3 {
		t.Errorf("%v", got)
	}
	if _, ok := got["direct"].Values["added"]; ok {
		t.Errorf("%v", got)
	}
	if alone := evaluate(map[string]observation{"proxy": latency(5)}); len(alone["proxy"].Values) != 1 {
		t.Errorf("without the run without: %v", alone)
	}
}
