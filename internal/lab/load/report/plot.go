package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The geometry of a plot, in the units of its viewBox.
const (
	plotWidth  = 640
	plotWide   = 1312 // of a plot as wide as two others
	plotHeight = 260
	plotLeft   = 64 // room for the labels of the vertical axis
	plotRight  = 14
	plotTop    = 12
	plotBottom = 40
)

// plot is a diagram as the template draws it.
type plot struct {
	Title, About   string
	XLabel, YLabel string
	X, Y           []tick
	Curves         []curve
	Hovers         []hover
	Bands          []band

	Width, Height            int
	Left, Right, Top, Bottom float64 // of the area for the curves
}

// Tall returns the height of the area for the curves.
func (p plot) Tall() float64 { return p.Bottom - p.Top }

// Wide reports whether the plot takes the place of two.
func (p plot) Wide() bool { return p.Width > plotWidth }

// YText returns where the labels of the vertical axis end.
func (p plot) YText() float64 { return p.Left - 8 }

// XText returns where the labels of the horizontal axis stand.
func (p plot) XText() float64 { return p.Bottom + 16 }

// XLabelAt returns where the horizontal axis itself is named.
func (p plot) XLabelAt() float64 { return p.Bottom + 34 }

// tick is a place on an axis.
type tick struct {
	At    float64
	Label string
}

// curve is one line of a plot.
type curve struct {
	Name  string
	Class string
	Path  string
	Dots  []dot // for curves of few places
}

type dot struct{ X, Y float64 }

// hover is a part of a plot that tells its numbers to who points at it.
type hover struct {
	X, Width float64
	Text     string
}

// band is a part of a plot's time that is not the steady part.
type band struct {
	X, Width float64
	Label    string
}

// series is what a curve shows: values over x; what is not a number is left out.
type series struct {
	name, class string
	values      []float64
}

// axis maps values to places.
type axis struct {
	from, to  float64 // values
	low, high float64 // places
	log       bool
}

func (a axis) at(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		v, from, to = math.Log10(max(v, a.from)), math.Log10(a.from), math.Log10(a.to)
	}
	share := 0.0
	if to > from {
		share = min(max((v-from)/(to-from), 0), 1)
	}
	return math.Round((a.low+share*(a.high-a.low))*10) / 10
}

// newPlot makes a plot of series over the same places.
func newPlot(title, about string, x axis, places []float64, y axis, all []series) plot {
	p := plot{
		Title: title, About: about, Width: plotWidth, Height: plotHeight,
		Left: plotLeft, Right: plotWidth - plotRight, Top: plotTop, Bottom: plotHeight - plotBottom,
	}
	for _, s := range all {
		p.Curves = append(p.Curves, newCurve(s, x, places, y))
	}
	return p
}

// newCurve makes the curve of a series.
func newCurve(s series, x axis, places []float64, y axis) curve {
	c := curve{Name: s.name, Class: s.class}
	var path strings.Builder
	drawing := false
	for i, v := range s.values {
		if math.IsNaN(v) {
			drawing = false
			continue
		}
		at := dot{x.at(places[i]), y.at(v)}
		if drawing {
			fmt.Fprintf(&path, "L%g %g", at.X, at.Y)
		} else {
			fmt.Fprintf(&path, "M%g %g", at.X, at.Y)
		}
		drawing = true
		c.Dots = append(c.Dots, at)
	}
	if len(c.Dots) > fewDots {
		c.Dots = nil
	}
	c.Path = path.String()
	return c
}

// fewDots is up to how many places a curve marks each.
const fewDots = 45

// linear returns an axis from 0 to a round value that holds all, and its ticks.
func linear(largest float64, low, high float64, label func(float64) string) (axis, []tick) {
	if largest <= 0 || math.IsNaN(largest) {
		largest = 1
	}
	step := round(largest / 4)
	a := axis{to: math.Ceil(largest/step-1e-9) * step, low: low, high: high}
	var ticks []tick
	for v := 0.0; v <= a.to+step/2; v += step {
		ticks = append(ticks, tick{a.at(v), label(v)})
	}
	return a, ticks
}

// round returns the next larger one of 1, 2, 2.5 and 5 times a power of ten.
func round(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// decadeRoom is how much room a logarithmic axis needs for a power of ten to have a tick at 1, 2 and 5 times it.
const decadeRoom = 83

// logarithmic returns an axis for values above 0, and its ticks.
func logarithmic(smallest, largest float64, low, high float64, label func(float64) string) (axis, []tick) {
	if !(smallest > 0) || !(largest >= smallest) {
		smallest, largest = 1, 10
	}
	a := axis{low: low, high: high, log: true}
	multiples := []float64{1, 2, 5, 10}
	if math.Log10(largest/smallest)*decadeRoom > math.Abs(high-low) {
		multiples = []float64{1, 10}
	}
	power := math.Pow(10, math.Floor(math.Log10(smallest)))
	for _, m := range multiples {
		if m*power <= smallest {
			a.from = m * power
		}
	}
	var values []float64
	for ; a.to < largest; power *= 10 {
		for _, m := range multiples[:len(multiples)-1] {
			if v := m * power; v >= a.from*(1-1e-9) && a.to < largest {
				values = append(values, v)
				a.to = v
			}
		}
	}
	if len(values) == 1 { // all are the same
		a.to = 10 * a.from
		values = append(values, a.to)
	}
	var ticks []tick
	for _, v := range values {
		ticks = append(ticks, tick{a.at(v), label(v)})
	}
	return a, ticks
}

// seconds are steps of time that people count in.
var timeSteps = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 36000}

// timeAxis returns an axis for the time of a run.
func timeAxis(end float64) (axis, []tick) {
	a := axis{to: max(end, 0.1), low: plotLeft, high: plotWidth - plotRight}
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if a.to/s <= 10 {
			step = s
			break
		}
	}
	var ticks []tick
	for n := 0; float64(n)*step <= a.to; n++ {
		v := float64(n) * step
		ticks = append(ticks, tick{a.at(v), clock(v)})
	}
	return a, ticks
}

// clock writes seconds.
func clock(v float64) string {
	d := time.Duration(v * float64(time.Second)).Round(time.Millisecond)
	switch {
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d h", int(d.Hours()), int(d.Minutes())%60)
}

// number writes a number with its thousands apart.
func number(v float64) string {
	places := 0
	switch {
	case v == math.Trunc(v) || math.Abs(v) >= 100:
	case math.Abs(v) >= 10:
		places = 1
	case math.Abs(v) >= 1:
		places = 2
	default:
		places = 3
	}
	text := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, rest, _ := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}

// ms writes milliseconds with their unit.
func ms(v float64) string {
	if v >= 10_000 {
		return number(v/1000) + " s"
	}
	return number(v) + " ms"
}

// Chart is a line chart for a file of its own, with both axes logarithmic and a legend. It has a white ground, so that it can
// be read in a dark page as well.
type Chart struct {
	Title string
	X, Y  string // what the axes show, with the unit
	Lines []ChartLine
	// Linear: both axes begin at 0, and are not logarithmic.
	Linear bool
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

// SVG returns the drawing. It fails when there is no point at all, or one that the axes cannot show.
func (c Chart) SVG() (string, error) {
	var xs, ys []float64
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if least := min(p.X, p.Y); !(least > 0 || c.Linear && least == 0) || math.IsInf(max(p.X, p.Y, p.Max), 1) {
				return "", fmt.Errorf("%s: %s has a point at (%g, %g), which the axes cannot show", c.Title, l.Name, p.X, p.Y)
			}
			xs, ys = append(xs, p.X), append(ys, p.Y, max(p.Y, p.Max))
		}
	}
	if len(xs) == 0 {
		return "", fmt.Errorf("%s: there is nothing to draw", c.Title)
	}
	if c.Linear {
		x, xTicks := linear(slices.Max(xs), chartLeft, chartRight, number)
		y, yTicks := linear(slices.Max(ys), chartBottom, chartTop, number)
		return c.draw(x, y, xTicks, yTicks)
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
	return c.draw(x, y, xTicks, yTicks)
}

func (c Chart) draw(x, y axis, xTicks, yTicks []tick) (string, error) {
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
