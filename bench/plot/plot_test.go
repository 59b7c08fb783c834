package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func chart() Chart {
	return Chart{Title: "Cost & growth", X: "sessions", Y: "µs", LogX: true, LogY: true, Series: []Series{
		{Name: "a <b>", Strong: true, Points: []Point{{X: 100, Y: 20}, {X: 9000, Y: 40, Min: 30, Max: 300}}},
		{Name: "other", Note: "overloaded", Points: []Point{{X: 500, Y: 90}}},
	}}
}

func TestSVGIsWellFormed(t *testing.T) {
	svg, err := chart().SVG()
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, svg)
		}
	}
	for _, want := range []string{">Cost &amp; growth<", ">sessions<", ">µs<", ">a &lt;b&gt;<", ">other, overloaded<", ">9,000<", ">500<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in:\n%s", want, svg)
		}
	}
}

func TestImpossibleCharts(t *testing.T) {
	for name, points := range map[string][]Point{
		"nothing": nil, "zero": {{X: 1, Y: 0}}, "infinite": {{X: 1, Y: math.Inf(1)}}, "no number": {{X: math.NaN(), Y: 1}},
	} {
		c := Chart{Title: name, LogY: true, Series: []Series{{Name: "s", Points: points}}}
		if svg, err := c.SVG(); err == nil {
			t.Errorf("%s: no error, but %s", name, svg)
		}
	}
}

func TestAxes(t *testing.T) {
	x, y, err := chart().axes()
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{100, 500, 9000}; !slices.Equal(x.ticks, want) {
		t.Errorf("x has ticks at %v, want %v", x.ticks, want)
	}
	if y.least != 20 || y.most != 500 {
		t.Errorf("y reaches from %g to %g, want 20 to 500, which has the bar's end in it", y.least, y.most)
	}
	if top, bottom := y.place(500), y.place(20); top >= bottom {
		t.Errorf("500 is at %g, below 20 at %g", top, bottom)
	}
	if a, b, c := y.place(20), y.place(100), y.place(500); math.Abs((a+c)/2-b) > 0.01 {
		t.Errorf("equal ratios are not equal distances: %g, %g, %g", a, b, c)
	}
	linear := chart()
	linear.LogY = false
	if _, y, _ := linear.axes(); y.least != 0 || y.most != 300 || !slices.Equal(y.ticks, []float64{0, 50, 100, 150, 200, 250, 300}) {
		t.Errorf("the linear axis is %+v", y)
	}
}

func TestSmallNumbersHaveTicks(t *testing.T) {
	c := Chart{Title: "small", LogY: true, Series: []Series{{Name: "s", Points: []Point{{X: 1, Y: 0.07}, {X: 2, Y: 0.07}}}}}
	if _, y, err := c.axes(); err != nil || y.least != 0.05 || math.Abs(y.most-0.1) > 1e-12 {
		t.Errorf("%+v (%v), want 0.05 to 0.1", y, err)
	}
}
