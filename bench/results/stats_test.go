package results

import (
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9, 3}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9, 4}},
	} {
		if got := NewSpread(test.values); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.values, got, test.want)
		}
	}
	for text, s := range map[string]Spread{"2.0 (1.0–30.0)": NewSpread([]float64{2, 30, 1}), "2.0": NewSpread([]float64{2}), "-": {}} {
		if got := s.Text(1); got != text {
			t.Errorf("%+v is shown as %q, want %q", s, got, text)
		}
	}
}

func TestQuantiles(t *testing.T) {
	hundred := make([]float64, 100) // 100, 99 ... 1
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]float64{3, 1}, 0.5, 1},
		{[]float64{3, 1}, 0.51, 3},
		{[]float64{7}, 0.99, 7},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %d values = %v, want %v", c.q, len(c.values), got, c.want)
		}
	}
	if got := Median([]float64{9, 1, 4}); got != 4 {
		t.Errorf("median of three = %v, want 4", got)
	}
	if got := Median([]float64{9, 1, 4, 6}); got != 5 {
		t.Errorf("median of four = %v, want 5", got)
	}
}

func TestRatiosAreThoseOfARound(t *testing.T) {
	c := &fixture().Scenarios[0].Cells[0]
	// Of 20/10, 60/40 and 80/20; the ratio of the medians would be 3.
	if got, want := c.Ratios("nginx", "wsbouncer", "cpu_us"), (Spread{2, 1.5, 4, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := c.Ratios("haproxy", "wsbouncer", "cpu_us"), (Spread{0.5, 0.5, 0.5, 1}); got != want {
		t.Errorf("with a failed round: %+v, want %+v", got, want)
	}
	if got := c.Ratios("caddy", "wsbouncer", "cpu_us"); got.Count != 0 {
		t.Errorf("a rival that was skipped has a ratio: %+v", got)
	}
	c.Rounds[0]["wsbouncer"].Values["cpu_us"] = 0
	if got := c.Ratios("nginx", "wsbouncer", "cpu_us"); got.Count != 2 {
		t.Errorf("a ratio to 0 counts: %+v", got)
	}
}

func TestFaults(t *testing.T) {
	want := []string{"caddy: not installed", "relay, 500 x 1 KiB, haproxy: no | luck"}
	if got := fixture().Faults(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
