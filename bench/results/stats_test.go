package results

import "testing"

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
