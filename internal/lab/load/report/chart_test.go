package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	svg, err := Chart{Title: "Cost & growth", X: "sessions", Y: "µs", Lines: []ChartLine{
		{Name: "a <b>", Strong: true, Points: []ChartPoint{{X: 100, Y: 20}, {X: 9000, Y: 40, Min: 30, Max: 300}}},
		{Name: "other", Note: "overloaded", Points: []ChartPoint{{X: 500, Y: 90}}},
		{Name: "none", Note: "no numbers"},
	}}.SVG()
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, svg)
		}
		if said, ok := token.(xml.CharData); ok && len(strings.TrimSpace(string(said))) > 0 {
			text = append(text, string(said))
		}
	}
	// The vertical axis reaches to 500, which has the bar's end in it; the strong line is drawn last.
	const want = "Cost & growth|Cost & growth|20|50|100|200|500|100|500|9,000|sessions|µs|other, overloaded|none, no numbers|a <b>"
	if got := strings.Join(text, "|"); got != want {
		t.Errorf("the text is\n%s, want\n%s", got, want)
	}
	// 100 sessions are at the left, 9,000 at the right; 20 µs at the bottom; the bar from 30 to 300.
	for _, part := range []string{`d="M90 384L630 310.8"`, `<path d="M630 341.2V98" opacity="0.5"/>`, `<circle cx="90" cy="384" r="4.6"`} {
		if !strings.Contains(svg, part) {
			t.Errorf("no %s in:\n%s", part, svg)
		}
	}
}

func TestChartOfOnePoint(t *testing.T) {
	svg, err := Chart{Title: "one", Lines: []ChartLine{{Name: "s", Points: []ChartPoint{{X: 500, Y: 0.07}}}}}.SVG()
	if err != nil || !strings.Contains(svg, `<circle cx="360"`) || !strings.Contains(svg, ">0.05<") || !strings.Contains(svg, ">0.1<") {
		t.Errorf("%v: the point is not in the middle, between 0.05 and 0.1:\n%s", err, svg)
	}
}

func TestLinearChart(t *testing.T) {
	svg, err := Chart{Title: "flat", Linear: true, Lines: []ChartLine{{Name: "s", Points: []ChartPoint{{X: 0, Y: 0}, {X: 20, Y: 8}}}}}.SVG()
	if err != nil || !strings.Contains(svg, `d="M74 384L646 44"`) {
		t.Errorf("%v: the line does not reach from corner to corner:\n%s", err, svg)
	}
}

func TestImpossibleCharts(t *testing.T) {
	for name, points := range map[string][]ChartPoint{
		"nothing": nil, "zero": {{X: 1, Y: 0}}, "infinite": {{X: 1, Y: math.Inf(1)}}, "no number": {{X: math.NaN(), Y: 1}},
		"endless bar": {{X: 1, Y: 1, Min: 1, Max: math.Inf(1)}},
	} {
		if svg, err := (Chart{Title: name, Lines: []ChartLine{{Name: "s", Points: points}}}).SVG(); err == nil {
			t.Errorf("%s: no error, but %s", name, svg)
		}
	}
}
