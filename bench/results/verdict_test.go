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
	for _, test := range []struct {
		budget, verdict, measured string
		met                       bool
	}{
		{"at most nginx's", "**met**", "worst 0.500 (0.250 - 0.667) x at 500 x 1 KiB; limit 1.000", true},
		{"at most haproxy's", "**missed** at 1 of 1: 500 x 1 KiB by 100.0 %", "not measured: 9000 x 1 KiB: no numbers", false},
		{"at most envoy's", "not measured", "500 x 1 KiB: no numbers", false},
		{"1.05 x the C epoll relay's", "**missed** at 1 of 2: 9000 x 1 KiB by 4.8 %", "worst 1.100 (1.100 - 1.200) x at 9000 x 1 KiB; limit 1.050", false},
		{"at 9,000 sessions: at most 1.1 x", "**met**", "worst 1.100 (1.100 - 1.200) x", true},
		{"less than Python's, where Python can carry", "not measured", "9000 x 1 KiB: no numbers", false},
		{"clients at once: no failure", "not measured", "", false},
	} {
		v := find(t, fixture(), test.budget)
		if v.Verdict != test.verdict || !strings.Contains(v.Measured, test.measured) || v.Met != test.met {
			t.Errorf("%s:\n got %+v\nwant %+v", test.budget, v, test)
		}
	}
}

func TestAbsoluteBudgets(t *testing.T) {
	for failures, want := range map[float64]string{0: "**met**", 3: "**missed** at 1 of 1: 3000 x 1 KiB: 3"} {
		r := fixture()
		burst := cell(3000, "failures", map[string][]float64{"wsbouncer": {failures}})
		r.Scenarios = append(r.Scenarios, Scenario{Name: "burst", Base: "wsbouncer", Cells: []Cell{burst}})
		if v := find(t, r, "clients at once: no failure"); v.Verdict != want {
			t.Errorf("%g failures: %+v, want %s", failures, v, want)
		}
	}
}

func TestMissesWithinTheSpreadSaySo(t *testing.T) {
	r := fixture()
	r.Scenarios[0].Cells = []Cell{cell(500, "cpu_us", map[string][]float64{"wsbouncer": {10, 10, 10}, "nginx": {9, 9, 11}})}
	if v := find(t, r, "at most nginx's"); v.Verdict != "**missed** at 1 of 1: 500 x 1 KiB by 11.1 % (within the spread)" {
		t.Errorf("%+v", v)
	}
}
