//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func testOutcome() outcome {
	s := scenario{name: "cpu", title: "Processor time", base: "ours", metrics: []metric{
		{key: "us", title: "µs", digits: 1, ratio: true},
	}}
	us := func(v float64) run { return run{Values: map[string]float64{"us": v}} }
	return outcome{
		scenario: s,
		rivals:   []rival{{name: "ours"}, {name: "theirs"}, {name: "broken"}, {name: "shaky"}, {name: "absent", missing: "not installed"}},
		rounds: []round{
			{"ours": us(10), "theirs": us(20), "broken": {Error: "no | luck"}, "shaky": us(10)},
			{"ours": us(40), "theirs": us(60), "broken": {Error: "no | luck"}, "shaky": {Error: "once"}},
			{"ours": us(20), "theirs": us(80), "broken": {Error: "no | luck"}, "shaky": us(20)},
		},
	}
}

func TestTableNamesEveryRival(t *testing.T) {
	var text strings.Builder
	testOutcome().table(&text)
	for _, want := range []string{
		"| rival | µs | / ours |",
		"| ours | 20.0 (10.0 - 40.0) | 1.00 |",
		"| theirs | 60.0 (20.0 - 80.0) | 2.00 |", // the median of 2, 1.5 and 4, not 60/20
		"| broken | failed: no / luck |  |",
		"| shaky (failed in 1 of 3 rounds: once) | 15.0 (10.0 - 20.0) | 1.00 |",
		"| absent | skipped: not installed |  |",
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no line %q in:\n%s", want, &text)
		}
	}
}

func TestEncodeKeepsEveryRound(t *testing.T) {
	text, err := encode([]outcome{testOutcome()})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scenarios []struct {
			Skipped map[string]string
			Summary map[string]map[string]struct{ Median, Ratio float64 }
			Rounds  []round
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	s := got.Scenarios[0]
	if len(s.Rounds) != 3 || s.Rounds[1]["shaky"].Error != "once" || s.Skipped["absent"] == "" {
		t.Errorf("rounds or skipped rivals are wrong:\n%s", text)
	}
	if sum := s.Summary["theirs"]["us"]; sum.Median != 60 || sum.Ratio != 2 {
		t.Errorf("summary = %+v, want a median of 60 and a ratio of 2", sum)
	}
}

func TestSelectRivals(t *testing.T) {
	all := []rival{{name: "wsbouncer"}, {name: "nginx-1"}, {name: "nginx-2"}, {name: "poller-1"}, {name: "poller-drain-1"}}
	for list, want := range map[string]string{
		"":                  "wsbouncer nginx-1 nginx-2 poller-1 poller-drain-1",
		"nginx":             "nginx-1 nginx-2",
		"wsbouncer,nginx-2": "wsbouncer nginx-2",
		"poller":            "poller-1",
	} {
		got, err := selectRivals(all, list)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range got {
			names = append(names, r.name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%q selects %v, want %s", list, names, want)
		}
	}
	if _, err := selectRivals(all, "nobody"); err == nil {
		t.Error("a list that selects nothing is no error")
	}
}
