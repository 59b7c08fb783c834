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
		{options{}, "whole", "relay tls latency burst burst-tls rate check start start-tls churn", 3},
		{options{quick: true}, "quick", "relay tls latency burst burst-tls rate check start start-tls churn", 1},
		{options{scenarios: "cpu,memory,idle"}, "selected", "relay idle", 3},
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
	present := func(scenario) int { return 9 }
	for _, test := range []struct {
		options     options
		least, most time.Duration
	}{{options{}, 25 * time.Minute, 45 * time.Minute}, {options{quick: true}, 2 * time.Minute, 8 * time.Minute}} {
		p, err := newPlan(test.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.expected(present); got < test.least || got > test.most {
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
		if total := float64(l.sessions) * l.rate; l.size == 1024 && !strings.Contains(l.label, "light") && (total < 9990 || total > 10010) {
			t.Errorf("%s offers %.0f messages/s", l.label, total)
		}
	}
	want := "100 x 1 KiB|500 x 1 KiB|1000 x 1 KiB|3000 x 1 KiB|6000 x 1 KiB|9000 x 1 KiB|500 x 64 B|500 x 3200 B|500 x 64 KiB|500 x 1 KiB, light"
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
