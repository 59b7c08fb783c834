package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// mostHovers is the largest number of points that a plot tells the numbers of, and the page's table has lines for.
const mostHovers = 600

// leastLatencies is how many times longer than the shortest the longest latency is where the plot of percentiles is
// logarithmic.
const leastLatencies = 20

// plots returns the diagrams that the run has something to show in.
func (r *Report) plots() (all []plot) {
	f, series := &r.Result.Figures, r.Result.Series
	add := func(when bool, make func() plot) {
		if when {
			all = append(all, make())
		}
	}
	add(len(series) > 0 && f.Sent > 0, func() plot { return messagesPlot(series) })
	add(len(series) > 0 && f.Latency.Count() > 0, func() plot { return latencyPlot(series, r.latency()) })
	add(len(r.times()) > 0, func() plot { return distributionPlot(r.times()) })
	add(len(series) > 0, func() plot { return connectionsPlot(series) })
	add(len(series) > 0, func() plot { return sessionsPlot(series, r.churns()) })
	return all
}

// overTime makes a plot of what the points of the time series hold. Curves go through the middle of each point's time, or
// through its end.
func overTime(title, about string, points []load.Point, atEnd bool, curves []series, log bool, label func(float64) string, tell func(load.Point) string) plot {
	end := 0.0
	places := make([]float64, len(points))
	for i, p := range points {
		places[i] = (p.Start + p.End).Seconds() / 2
		if atEnd {
			places[i] = p.End.Seconds()
		}
		end = p.End.Seconds()
	}
	smallest, largest := math.Inf(1), 0.0
	for _, c := range curves {
		for _, v := range c.values {
			if !math.IsNaN(v) {
				smallest, largest = min(smallest, v), max(largest, v)
			}
		}
	}
	x, xTicks := timeAxis(end)
	y, yTicks := linear(largest, plotHeight-plotBottom, plotTop, label)
	yLabel := ""
	if log {
		yLabel = "logarithmic"
		y, yTicks = logarithmic(smallest, largest, plotHeight-plotBottom, plotTop, label)
	}
	p := newPlot(title, about, x, places, y, curves)
	p.X, p.Y, p.XLabel, p.YLabel = xTicks, yTicks, "since clients began to connect", yLabel
	for i, point := range points {
		from, to := x.at(point.Start.Seconds()), x.at(point.End.Seconds())
		if len(points) <= mostHovers {
			p.Hovers = append(p.Hovers, hover{from, to - from, fmt.Sprintf("%s to %s (%s): %s",
				clock(point.Start.Seconds()), clock(point.End.Seconds()), point.Phase, tell(point))})
		}
		if point.Phase == load.Steady {
			continue
		}
		if i > 0 && points[i-1].Phase == point.Phase && len(p.Bands) > 0 {
			p.Bands[len(p.Bands)-1].Width += to - from
		} else {
			p.Bands = append(p.Bands, band{from, to - from, point.Phase.String()})
		}
	}
	return p
}

// each returns a value for each point.
func each(points []load.Point, value func(load.Point) float64) []float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = value(p)
	}
	return values
}

func messagesPlot(points []load.Point) plot {
	rate := func(p load.Point, messages int64) float64 {
		if p.Phase != load.Steady && messages == 0 {
			return math.NaN()
		}
		return p.PerSecond(messages)
	}
	return overTime("Messages per second", "Sent and received messages of the steady part, per second, over the time of the run.", points, false,
		[]series{
			{"received", "a", each(points, func(p load.Point) float64 { return rate(p, p.Received) })},
			{"sent", "b dashed", each(points, func(p load.Point) float64 { return rate(p, p.Sent) })},
		}, false, number,
		func(p load.Point) string {
			return fmt.Sprintf("%s sent/s, %s received/s", number(math.Round(p.PerSecond(p.Sent))), number(math.Round(p.PerSecond(p.Received))))
		})
}

func latencyPlot(points []load.Point, what string) plot {
	of := func(value func(load.Point) float64) []float64 {
		return each(points, func(p load.Point) float64 {
			if p.Max == 0 {
				return math.NaN()
			}
			return value(p)
		})
	}
	curves := []series{
		{"max", "c", of(func(p load.Point) float64 { return milliseconds(p.Max) })},
		{"p99", "b", of(func(p load.Point) float64 { return milliseconds(p.P99) })},
		{"p50", "a", of(func(p load.Point) float64 { return milliseconds(p.P50) })},
	}
	log := false
	for _, p := range points {
		log = log || p.P50 > 0 && p.Max >= leastLatencies*p.P50
	}
	return overTime(strings.ToUpper(what[:1])+what[1:]+" over time", "Percentiles of the "+what+" in each second or so, over the time of the run.", points, false, curves, log, ms,
		func(p load.Point) string {
			return fmt.Sprintf("p50 %s, p99 %s, max %s", ms(milliseconds(p.P50)), ms(milliseconds(p.P99)), ms(milliseconds(p.Max)))
		})
}

func connectionsPlot(points []load.Point) plot {
	return overTime("Open connections", "How many connections were open, over the time of the run.", points, true,
		[]series{{"open", "a", each(points, func(p load.Point) float64 { return float64(p.Active) })}}, false, number,
		func(p load.Point) string { return number(float64(p.Active)) + " open" })
}

func sessionsPlot(points []load.Point, churns bool) plot {
	curves := []series{{"connected", "a", each(points, func(p load.Point) float64 { return p.PerSecond(p.Connects) })}}
	if churns {
		curves = append(curves, series{"completed", "c dashed", each(points, func(p load.Point) float64 { return p.PerSecond(p.Completed) })})
	}
	curves = append(curves, series{"failed", "b", each(points, func(p load.Point) float64 { return p.PerSecond(p.Failures) })})
	return overTime("Sessions per second", "How many sessions connected, ended in order and failed per second, over the time of the run.", points, false,
		curves, false, number,
		func(p load.Point) string {
			return fmt.Sprintf("%d connected, %d completed, %d failed", p.Connects, p.Completed, p.Failures)
		})
}

// latency is what the figures of latency are of.
func (r *Report) latency() string {
	if r.audio() {
		return "lag"
	}
	return "latency"
}

// distributionPlot shows which share of durations took how long, with the place of a share by how many nines it has.
func distributionPlot(rows []row) plot {
	classes := []string{"a", "b", "c", "d", "e", "f"}
	most := int64(10)
	smallest, largest := math.Inf(1), 0.0
	for _, r := range rows {
		most = max(most, r.Times.Count())
		smallest = min(smallest, milliseconds(r.Times.Quantile(0)))
		largest = max(largest, milliseconds(r.Times.Max()))
	}
	rest := func(quantile float64) float64 { return 1 / max(1-quantile, 1/float64(most)) }
	x := axis{from: 1, to: float64(most), low: plotLeft, high: plotWide - plotRight, log: true}
	y, yTicks := logarithmic(max(smallest, 0.001), largest, plotHeight-plotBottom, plotTop, ms)
	p := newPlot("Distribution of times", "Which share of messages and sessions took at most how long.", x, nil, y, nil)
	p.Y, p.YLabel, p.XLabel = yTicks, "logarithmic", "percentile"
	p.Width, p.Right = plotWide, plotWide-plotRight
	for share, label := 0.0, 0; rest(share) < float64(most) || label == 0; label++ {
		p.X = append(p.X, tick{x.at(rest(share)), plain(100*share) + "%"})
		share = 1 - math.Pow(10, -float64(label+1))
		if label > 8 {
			break
		}
	}
	half := tick{x.at(2), "50%"}
	p.X = slices.Insert(p.X, 1, half)
	for i, r := range rows {
		var places, values []float64
		for _, step := range r.Times.Curve() {
			at := min(rest(step.Quantile), float64(r.Times.Count())) // what is beyond cannot be told
			places, values = append(places, at), append(values, milliseconds(step.Time))
		}
		drawn := newCurve(series{r.Name, classes[i%len(classes)], values}, x, places, y)
		drawn.Dots = nil
		p.Curves = append(p.Curves, drawn)
	}
	return p
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": func(v any) string {
		switch v := v.(type) {
		case int:
			return number(float64(v))
		case int64:
			return number(float64(v))
		case float64:
			return number(v)
		}
		return ""
	},
	"ms":    func(d time.Duration) string { return ms(milliseconds(d)) },
	"times": load.Times.Summary,
}).Parse(pageText))

// page is what the template is filled with.
type page struct {
	*Report
	Tiles    []tile
	Lines    []line
	Rows     []row
	Plots    []plot
	Points   []point
	Settings []Setting
	Omitted  int // points that are not shown as lines of the table
}

// tile is a figure that the page begins with.
type tile struct{ Value, Unit, About string }

// HTML writes the report as one file that needs no other.
func (r *Report) HTML(w io.Writer) error {
	p := page{Report: r, Tiles: r.tiles(), Lines: r.lines(), Rows: r.times(), Plots: r.plots(), Settings: r.settings()}
	if n := len(r.Result.Series); n <= mostHovers {
		p.Points = points(r.Result.Series)
	} else {
		p.Omitted = n
	}
	return pageTemplate.Execute(w, p)
}

// tiles returns the figures that matter most.
func (r *Report) tiles() (all []tile) {
	f := &r.Result.Figures
	add := func(value, unit, about string) { all = append(all, tile{value, unit, about}) }
	add(number(float64(f.Connected)), "", "of "+number(float64(f.Connections))+" clients connected")
	if f.Sent > 0 {
		add(number(f.MessagesPerSecond), "/s", "messages received")
	}
	if r.churns() {
		add(number(f.SessionsPerSecond), "/s", "sessions completed")
	}
	time := func(t load.Times, q float64, about string) {
		if t.Count() > 0 {
			add(number(milliseconds(t.Quantile(q))), "ms", about)
		}
	}
	time(f.Latency, 0.5, r.latency()+", p50")
	time(f.Latency, 0.99, r.latency()+", p99")
	if f.Latency.Count() == 0 {
		time(f.Connect, 0.99, "to connect, p99")
	}
	add(number(float64(f.Failures())), "", "sessions failed or refused")
	if s := r.Result.Speech; s != nil {
		time(s.Final, 0.99, "end of audio to last message, p99")
		if share, ok := s.SameShare(); ok {
			add(number(100*share), "%", "texts as of a session alone")
		}
		return all
	}
	add(number(float64(f.Lost+f.Mixed+f.Abandoned)), "", "messages lost, mixed up or abandoned")
	return all
}
