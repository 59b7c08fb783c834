package report

import (
	_ "embed"
	"html/template"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

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
	"times": newTimes,
}).Parse(pageText))

// page is what the template is filled with.
type page struct {
	*Report
	Tiles    []tile
	Lines    []line
	Rows     []row
	Plots    []plot
	Points   []point
	Settings []setting
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
	time(f.Latency, 0.5, "latency, p50")
	time(f.Latency, 0.99, "latency, p99")
	if f.Latency.Count() == 0 {
		time(f.Connect, 0.99, "to connect, p99")
	}
	time(f.Final, 0.99, "end of audio to final, p99")
	add(number(float64(f.Failures())), "", "sessions failed or refused")
	add(number(float64(f.Lost+f.Mixed+f.Abandoned)), "", "messages lost, mixed up or abandoned")
	return all
}
