package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Chart is a line chart for a file of its own, with both axes logarithmic and a legend. It has a white ground, so that it can
// be read in a dark page as well.
type Chart struct {
	Title string
	X, Y  string // what the axes show, with the unit
	Lines []ChartLine
}

// ChartLine is a line, of one colour. One without points is in the legend all the same, with its note.
type ChartLine struct {
	Name   string
	Note   string
	Strong bool // drawn thicker, above the others
	Points []ChartPoint
}

// ChartPoint is one point of a line, with the least and the most that was measured there.
type ChartPoint struct {
	X, Y     float64
	Min, Max float64 // both 0: no bar
}

// The area for the lines of a chart, in the units of its viewBox; the rest is chart.svg's.
const (
	chartLeft, chartRight = 74, 646
	chartTop, chartBottom = 44, 384
	chartInset            = 16 // between the first and last point and the area's sides
)

// chartColours can be told apart by those who see no red or no green (Okabe and Ito's, and greys).
var chartColours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#666666", "#a6761d", "#222222"}

//go:embed chart.svg
var chartText string

var chartTemplate = template.Must(template.New("chart").Parse(chartText))

// drawnLine is a line as chart.svg draws it.
type drawnLine struct {
	curve
	Colour        string
	Weight, Round float64 // of the line, of its dots
	Legend        int     // how far down it stands in the legend
	Bars          []bar
}

// bar reaches from the least to the most of a point.
type bar struct{ X, From, To float64 }

// SVG returns the drawing. It fails when there is no point at all, or one that a logarithmic axis cannot show.
func (c Chart) SVG() (string, error) {
	var xs, ys []float64
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if !(min(p.X, p.Y) > 0) || math.IsInf(max(p.X, p.Y, p.Max), 1) {
				return "", fmt.Errorf("%s: %s has a point at (%g, %g), which a logarithmic axis cannot show", c.Title, l.Name, p.X, p.Y)
			}
			xs, ys = append(xs, p.X), append(ys, p.Y, max(p.Y, p.Max))
		}
	}
	if len(xs) == 0 {
		return "", fmt.Errorf("%s: there is nothing to draw", c.Title)
	}
	slices.Sort(xs)
	x := axis{from: xs[0], to: xs[len(xs)-1], low: chartLeft + chartInset, high: chartRight - chartInset, log: true}
	if x.from == x.to { // in the middle, then
		x.from, x.to = x.from/2, x.to*2
	}
	y, yTicks := logarithmic(slices.Min(ys), slices.Max(ys), chartBottom, chartTop, number)
	var xTicks []tick
	for _, v := range slices.Compact(xs) {
		xTicks = append(xTicks, tick{x.at(v), number(v)})
	}
	var svg strings.Builder
	err := chartTemplate.Execute(&svg, map[string]any{
		"Title": c.Title, "XLabel": c.X, "YLabel": c.Y, "X": xTicks, "Y": yTicks, "Lines": c.drawn(x, y),
	})
	return svg.String(), err
}

// drawn returns the lines in the order in which they are drawn: the strong ones last.
func (c Chart) drawn(x, y axis) []drawnLine {
	var weak, strong []drawnLine
	for i, l := range c.Lines {
		s := series{name: l.Name}
		if l.Note != "" {
			s.name += ", " + l.Note
		}
		d := drawnLine{Colour: chartColours[i%len(chartColours)], Legend: chartTop + 10 + 24*i}
		var places []float64
		for _, p := range l.Points {
			places, s.values = append(places, p.X), append(s.values, p.Y)
			if p.Max > p.Min {
				d.Bars = append(d.Bars, bar{x.at(p.X), y.at(p.Min), y.at(p.Max)})
			}
		}
		d.curve = newCurve(s, x, places, y)
		if l.Strong {
			d.Weight, d.Round = 3.6, 4.6
			strong = append(strong, d)
		} else {
			d.Weight, d.Round = 1.8, 2.8
			weak = append(weak, d)
		}
	}
	return append(weak, strong...)
}
