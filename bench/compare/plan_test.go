//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func names(p plan) string {
	var all []string
	for _, s := range p.scenarios {
		all = append(all, s.name)
	}
	return strings.Join(all, " ")
}

func TestPlans(t *testing.T) {
	for _, test := range []struct {
		options   options
		name      string
		scenarios string
		rounds    int
	}{
		{options{}, "whole", "relay light tls latency burst burst-tls everything rate start churn", 3},
		{options{quick: true}, "quick", "relay light tls latency burst burst-tls everything rate start churn", 1},
		{options{scenarios: "cpu,memory,profiles"}, "selected", "relay profiles", 3},
		{options{scenarios: "silent", sessions: "1000,9000"}, "selected", "silent", 3},
		{options{only: "nginx", scenarios: "burst", rounds: 7}, "selected", "burst", 7},
	} {
		p, err := newPlan(test.options)
		if err != nil {
			t.Fatal(err)
		}
		if p.name != test.name || names(p) != test.scenarios || p.rounds != test.rounds {
			t.Errorf("%+v: %s, %s, %d rounds", test.options, p.name, names(p), p.rounds)
		}
	}
	for _, wrong := range []options{{scenarios: "nothing"}, {sessions: "x"}, {sessions: "0"}, {sizes: "1"}, {sizes: "17MiB"}, {sizes: "1KB"}} {
		if _, err := newPlan(wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

func TestExpectedTimes(t *testing.T) {
	// How many rivals take part where nothing is missing. Runs took 0.92 of what was estimated.
	present := func(s scenario) int {
		return map[string]int{
			"relay": 8, "light": 7, "tls": 5, "latency": 7, "burst": 7, "burst-tls": 5, "everything": 8, "rate": 7, "start": 9, "churn": 8,
		}[s.name]
	}
	for _, test := range []struct {
		options     options
		least, most time.Duration
	}{{options{}, 15 * time.Minute, 23 * time.Minute}, {options{quick: true}, 2 * time.Minute, 6 * time.Minute}} {
		p, err := newPlan(test.options)
		if err != nil {
			t.Fatal(err)
		}
		got := p.expected(present)
		t.Logf("the plan %s is expected to take %v", p.name, got)
		if got < test.least || got > test.most {
			t.Errorf("the plan %s is expected to take %v", p.name, got)
		}
	}
}

func TestRelayLoads(t *testing.T) {
	p, err := newPlan(options{})
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, l := range p.scenarios[0].loads {
		labels = append(labels, l.label)
		if total := float64(l.sessions) * l.rate; l.size == 1024 && (total < 9990 || total > 10010) {
			t.Errorf("%s offers %.0f messages/s", l.label, total)
		}
	}
	want := "500 x 1 KiB|3000 x 1 KiB|9000 x 1 KiB|500 x 3200 B"
	if got := strings.Join(labels, "|"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p, err = newPlan(options{scenarios: "memory", sessions: "7,8", sizes: "64B,1MiB"})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.scenarios[0].loads) != 4 || p.scenarios[0].loads[3].label != "8 x 1 MiB" {
		t.Errorf("%+v", p.scenarios[0].loads)
	}
}

func TestSizes(t *testing.T) {
	for text, bytes := range map[string]int{"64B": 64, "1KiB": 1024, "3200": 3200, "2MiB": 2 << 20} {
		if got, err := parseSize(text); err != nil || got != bytes {
			t.Errorf("%s is %d (%v), want %d", text, got, err, bytes)
		}
		if back, _ := parseSize(strings.ReplaceAll(showSize(bytes), " ", "")); back != bytes {
			t.Errorf("%d is shown as %s", bytes, showSize(bytes))
		}
	}
}

func TestCommandFor(t *testing.T) {
	if got := commandFor(nil); got != "make bench" {
		t.Error(got)
	}
	if got := commandFor([]string{"-quick", "-rounds", "2"}); got != "make bench BENCH_FLAGS='-quick -rounds 2'" {
		t.Error(got)
	}
}

func TestKernelVersion(t *testing.T) {
	if got := kernelVersion("6.1.0-13-amd64"); got != "Linux 6.1.0" {
		t.Error(got)
	}
}

func TestTailLoads(t *testing.T) {
	p, err := newPlan(options{scenarios: "tails", sessions: "500,9000", capacity: 20_000, tls: true})
	if err != nil {
		t.Fatal(err)
	}
	s := p.scenarios[0]
	if !strings.HasSuffix(s.title, "over TLS") || len(s.loads) != 6 {
		t.Fatalf("%s with %d loads", s.title, len(s.loads))
	}
	if l := s.loads[2]; l.label != "500 x 1 KiB, 90 %" || l.rate != 36 {
		t.Errorf("%s at %g/s each", l.label, l.rate)
	}
	if l := s.loads[3]; l.label != "9000 x 1 KiB, 30 %" || l.rate != 0.667 {
		t.Errorf("%s at %g/s each", l.label, l.rate)
	}
}
