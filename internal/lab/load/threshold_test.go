package load

import (
	"strings"
	"testing"
	"time"
)

func TestParseThreshold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"p99>50ms", "p99>50ms"},
		{" p99.9 >= 1.5s ", "p99.9>=1.5s"},
		{"mean<=1h", "mean<=1h"},
		{"connect-p99>100ms", "connect-p99>100ms"},
		{"first-reply-max>1s", "first-reply-max>1s"},
		{"final-p50>300ms", "final-p50>300ms"},
		{"all-connected>2s", "all-connected>2s"},
		{"failures>0", "failures>0"},
		{"failure-rate>0.5%", "failure-rate>0.5%"},
		{"rate<9500", "rate<9500"},
		{"sessions<100", "sessions<100"},
		{"max>0s", "max>0s"},
	} {
		got, err := ParseThreshold(c.text)
		if err != nil || got.String() != c.want {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{`""`, "no comparison", "p99>50ms"}},
		{"p99", []string{"no comparison"}},
		{">5ms", []string{`unknown metric ""`, "p99.9", "failure-rate"}},
		{"p98>5ms", []string{`unknown metric "p98"`, "p99", "connect-p50", "first-reply-p99", "rate"}},
		{"p99=5ms", []string{"> >= < <="}},
		{"p99==5ms", []string{"> >= < <="}},
		{"p99!=5ms", []string{"> >= < <="}},
		{"p99=>5ms", []string{"> >= < <="}},
		{"p99>>5ms", []string{"> >= < <="}},
		{"p99>", []string{`invalid limit "" for p99`, "duration", "50ms"}},
		{"p99>50", []string{`"50"`, "duration", "unit"}},
		{"p99>0", []string{`"0"`, "duration"}},
		{"p99>-1ms", []string{`"-1ms"`, "0s or more"}},
		{"p99>5%", []string{`"5%"`, "duration"}},
		{"failure-rate>1", []string{`"1"`, "0.5%"}},
		{"failure-rate>101%", []string{`"101%"`, "100%"}},
		{"failure-rate>x%", []string{`"x%"`, "percentage"}},
		{"rate<5ms", []string{`"5ms"`, "number", "without a unit"}},
		{"rate<NaN", []string{`"NaN"`, "number"}},
		{"rate<Inf", []string{`"Inf"`, "number"}},
		{"lost>-1", []string{`"-1"`, "0 or more"}},
	} {
		_, err := ParseThreshold(c.text)
		if err == nil {
			t.Errorf("%q is taken", c.text)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v does not say %q", c.text, err, part)
			}
		}
	}
}

// measuredResult is a result in which each metric has another value.
func measuredResult() *Result {
	r := &Result{Figures: Figures{
		Connections: 10, AllConnected: time.Second, MessagesPerSecond: 98, SessionsPerSecond: 2,
		Counts: Counts{
			Connected: 8, ConnectFailures: 2, Sent: 1000, Received: 980, Lost: 3, Mixed: 4, Abandoned: 5, Unsent: 6, Failed: 1,
			Begun: 40, Complete: 20, Refused: 1, Cut: 16,
		},
	}, Duration: 10 * time.Second}
	for i := range 100 {
		r.Latency.Record(int64(i+1) * int64(time.Millisecond))
	}
	r.Speech = &Speech{Growth: Growth{PerSecond: 0.02, Error: 0.001, Sessions: 4}, RealTime: 1.25, Same: 9, Alike: 0.95}
	r.Speech.Final.Record(int64(200 * time.Millisecond))
	r.Connect.Record(int64(10 * time.Millisecond))
	r.ConnectAgain.Record(int64(30 * time.Millisecond))
	return r
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		text, verdict string
		failed        bool
	}{
		{"p50>50.1ms", "p50>50.1ms: ok, 50.004ms", false},
		{"p99>98ms", "", true},
		{"p99<98ms", "", false},
		{"max>=100ms", "", true},
		{"mean<=60ms", "", true},
		{"connect-max>29ms", "", true},
		{"connect-mean>25ms", "", false},
		{"first-reply-p99>1h", "first-reply-p99>1h: failed, nothing measured", true},
		{"final-p99<1h", "", true},
		{"final-p99>250ms", "", false},
		{"lag-p99>98ms", "", true},
		{"partial-p99>1h", "partial-p99>1h: failed, nothing measured", true},
		{"lag-growth>0.03", "lag-growth>0.03: ok, 0.02", false},
		{"real-time-factor>1.2", "", true},
		{"same-text<100%", "", false},
		{"words-alike<96%", "words-alike<96%: failed, 95%", true},
		{"all-connected>1h", "", true}, // not all clients connected
		{"failures>3", "failures>3: failed, 4", true},
		{"failures>4", "", false},
		{"failures>=4", "", true},
		{"failure-rate>9.9%", "failure-rate>9.9%: failed, 10%", true},
		{"failure-rate>10%", "", false},
		{"lost>2", "", true},
		{"mixed>4", "", false},
		{"abandoned>4", "", true},
		{"unsent<=6", "", true},
		{"rate<98", "rate<98: ok, 98", false},
		{"rate<=98", "", true},
		{"sessions<21", "", true},
		{"session-rate<2", "", false},
	} {
		threshold, err := ParseThreshold(c.text)
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := measuredResult().Judge([]Threshold{threshold})
		if v := verdicts[0]; v.Failed != c.failed || c.verdict != "" && v.String() != c.verdict {
			t.Errorf("%s; want failed %v, %q", v, c.failed, c.verdict)
		}
		if err == nil || strings.Contains(err.Error(), c.text) != c.failed {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// A threshold for what Err has an opinion on takes its place.
func TestJudgeTakesThresholdsForTheLastWord(t *testing.T) {
	parse := func(texts ...string) (all []Threshold) {
		for _, text := range texts {
			threshold, err := ParseThreshold(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, threshold)
		}
		return all
	}
	for _, c := range []struct {
		thresholds []string
		want       []string // empty for no error
	}{
		{nil, []string{"3 messages lost, 4 messages mixed up, 1 connections failed, 1 could not connect again"}},
		{[]string{"lost>5"}, []string{"4 messages mixed up, 1 connections failed"}},
		{[]string{"lost>5", "mixed>5", "failures>5"}, nil},
		{[]string{"lost>5", "mixed>5", "failure-rate>50%"}, nil},
		{[]string{"lost>5", "mixed>5", "failure-rate>50%", "p99>1ms"}, []string{"thresholds: p99>1ms"}},
		{[]string{"lost>1", "p99>1ms"}, []string{"4 messages mixed up", "lost>1: failed, 3", "p99>1ms: failed"}},
	} {
		_, err := measuredResult().Judge(parse(c.thresholds...))
		if (err == nil) != (c.want == nil) {
			t.Errorf("%q: %v", c.thresholds, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v does not say %q", c.thresholds, err, part)
			}
		}
	}
	if _, err := new(Result).Judge(parse("failures>5")); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("%v", err)
	}
}
