package report

import (
	"slices"
	"testing"
)

func labels(ticks []tick) (all []string) {
	for _, t := range ticks {
		all = append(all, t.Label)
	}
	return all
}

func TestAxes(t *testing.T) {
	for _, c := range []struct {
		largest float64
		want    []string
	}{
		{0, []string{"0", "0.25", "0.5", "0.75", "1"}},
		{1, []string{"0", "0.25", "0.5", "0.75", "1"}},
		{30, []string{"0", "10", "20", "30"}},
		{9998, []string{"0", "2,500", "5,000", "7,500", "10,000"}},
		{10001, []string{"0", "5,000", "10,000", "15,000"}},
	} {
		a, ticks := linear(c.largest, 200, 0, number)
		if got := labels(ticks); !slices.Equal(got, c.want) || a.at(0) != 200 || a.at(a.to) != 0 || a.to < c.largest {
			t.Errorf("%v: %q, %+v", c.largest, got, a)
		}
	}
	for _, c := range []struct {
		smallest, largest float64
		want              []string
	}{
		{0.1, 5, []string{"0.1", "0.2", "0.5", "1", "2", "5"}},
		{0.13, 9, []string{"0.1", "0.2", "0.5", "1", "2", "5", "10"}},
		{0.07, 900, []string{"0.01", "0.1", "1", "10", "100", "1,000"}},
		{3, 3, []string{"2", "5"}},
		{5, 5, []string{"5", "50"}},
		{0, 0, []string{"1", "2", "5", "10"}},
	} {
		a, ticks := logarithmic(c.smallest, c.largest, 200, 0, number)
		if got := labels(ticks); !slices.Equal(got, c.want) || a.at(a.from) != 200 || a.at(a.to) != 0 {
			t.Errorf("%v to %v: %q, %+v", c.smallest, c.largest, got, a)
		}
	}
	if _, ticks := logarithmic(0.1, 90, 340, 0, number); len(ticks) != 10 {
		t.Errorf("with room for 1, 2 and 5 of three powers of ten: %q", labels(ticks))
	}
	for _, c := range []struct {
		end   float64
		count int
		last  string
	}{
		{0, 2, "0.1 s"},
		{0.35, 4, "0.3 s"},
		{14.01, 8, "14 s"},
		{35, 8, "35 s"},
		{3600, 7, "1:00 h"},
		{1e6, 28, "270:00 h"},
	} {
		_, ticks := timeAxis(c.end)
		if got := labels(ticks); len(got) != c.count || got[len(got)-1] != c.last {
			t.Errorf("%v: %d ticks, %q", c.end, len(got), got)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 5: "5", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100", 0.1234: "0.123", 1.5: "1.5", 12.34: "12.3", 123.4: "123", 9999.6: "10,000",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
