package results

import (
	"strings"
	"testing"
)

// find returns the verdict on the budget whose text has these words in it.
func find(t *testing.T, r *Report, words string) Verdict {
	t.Helper()
	for _, v := range r.Judge() {
		if strings.Contains(v.Budget, words) {
			return v
		}
	}
	t.Fatalf("no budget has %q in it", words)
	return Verdict{}
}

func TestVerdicts(t *testing.T) {
	for _, test := range []struct{ budget, verdict, where, measured string }{
		{"at most nginx's, at every", met, "", "worst 0.500 (0.250–0.667) x at 500 x 1 KiB; limit 1.000"},
		{"at most haproxy's", undecided, "undecided at 500 x 1 KiB: +100.0 %", "not measured: 9000 x 1 KiB: no numbers"},
		{"at most envoy's", notMeasured, "", "500 x 1 KiB: no numbers"},
		{
			"1.05 x the C epoll relay's", missed, "missed at 9000 x 1 KiB: +4.8 %",
			"worst 1.100 (1.100–1.200) x at 9000 x 1 KiB; limit 1.050",
		},
		{"at 9,000 sessions: at most 1.1 x", undecided, "undecided at 9000 x 1 KiB: +0.0 %", "worst 1.100 (1.100–1.200) x"},
		{"clients at once: no failure", notMeasured, "", ""},
	} {
		v := find(t, fixture(), test.budget)
		if v.Verdict != test.verdict || !strings.HasSuffix(v.Where, test.where) || !strings.Contains(v.Measured, test.measured) {
			t.Errorf("%s:\n got %+v\nwant %+v", test.budget, v, test)
		}
	}
}

// A program that answers only a part of the load needs less for it, which meets no budget.
func TestOverloadMeetsNothing(t *testing.T) {
	const budget, where = "at most nginx's, at every", "not all programs carried the load at 500 x 1 KiB"
	for _, overloaded := range []string{ours, "nginx"} {
		r := fixture()
		c := &r.Scenarios[0].Cells[0]
		run := c.Rounds[2][overloaded]
		run.Overload = "it answered 9000 of 10000 messages/s"
		c.Rounds[2][overloaded] = run
		if v := find(t, r, budget); v.Verdict != undecided || !strings.HasSuffix(v.Measured, where) || v.Where != "undecided at 500 x 1 KiB: -50.0 %" {
			t.Errorf("%s is overloaded: %+v", overloaded, v)
		}
		c.Rounds[0]["nginx"], c.Rounds[1]["nginx"], c.Rounds[2]["nginx"] = c.Rounds[0]["c-relay"], c.Rounds[0]["c-relay"], c.Rounds[0]["c-relay"]
		for _, round := range c.Rounds {
			round[ours] = Run{Values: map[string]float64{"cpu_us": 40}, Overload: run.Overload}
		}
		if v := find(t, r, budget); v.Verdict != missed {
			t.Errorf("what is missed even so: %+v", v)
		}
	}
	r := fixture()
	burst := cell(3000, "failures", map[string][]float64{ours: {0, 0}})
	burst.Rounds[1][ours] = Run{Values: map[string]float64{"failures": 0}, Overload: "it answered nothing"}
	r.Scenarios = append(r.Scenarios, Scenario{Name: "burst", Base: ours, Cells: []Cell{burst}})
	if v := find(t, r, "clients at once: no failure"); v.Verdict != undecided {
		t.Errorf("no failure, but an overload: %+v", v)
	}
}

func TestAbsoluteBudgets(t *testing.T) {
	for failures, want := range map[float64]string{0: met, 3: missed} {
		r := fixture()
		burst := cell(3000, "failures", map[string][]float64{"wsbouncer": {0, failures}})
		r.Scenarios = append(r.Scenarios, Scenario{Name: "burst", Base: "wsbouncer", Cells: []Cell{burst}})
		if v := find(t, r, "clients at once: no failure"); v.Verdict != want {
			t.Errorf("%g failures: %+v, want %s", failures, v, want)
		}
		burst.Rounds[1]["wsbouncer"] = Run{Error: "nobody connected"}
		if v := find(t, r, "clients at once: no failure"); v.Verdict != missed {
			t.Errorf("with a run that failed: %+v", v)
		}
	}
}

func TestOnlyTheSpreadAllowsAVerdict(t *testing.T) {
	for want, ours := range map[string][]float64{undecided: {10, 10, 10}, met: {9, 8, 11}, missed: {10, 10, 12}} {
		r := fixture()
		r.Scenarios[0].Cells = []Cell{cell(500, "cpu_us", map[string][]float64{"wsbouncer": ours, "nginx": {9, 9, 11}})}
		if v := find(t, r, "at most nginx's, at every"); v.Verdict != want {
			t.Errorf("%v: %+v, want %s", ours, v, want)
		}
	}
}

func TestTheBestRivalIsTheOneWithTheLowestMedian(t *testing.T) {
	r := fixture()
	r.Scenarios = append(r.Scenarios, Scenario{
		Name: tailScenario, Base: ours, Metrics: []Metric{{Key: "p999_ms", Title: "p99.9, ms", Digits: 2}}, Rivals: []string{ours, "nginx", "haproxy", "other"},
		Cells: []Cell{cell(500, "p999_ms", map[string][]float64{ours: {3, 3}, "nginx": {2, 2}, "haproxy": {4, 1}, "other": {1, 1}})},
	})
	v := find(t, r, "Open load")
	if v.Verdict != missed || v.Where != "missed at 500 x 1 KiB, nginx: +36.4 %" {
		t.Errorf("%+v", v)
	}
	hasLines(t, r.Tables(), "| wsbouncer / the best rival | p99.9, ms |", "| 500 x 1 KiB | 1.50 (1.50–1.50) nginx |")
}
