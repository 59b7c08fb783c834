package calibrate

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// The plot's sizes, in pixels.
const (
	plotWidth, plotHeight = 880, 560
	left, right, top      = 76, 24, 92
	lagHeight             = 230
	growthTop             = top + lagHeight + 60
	growthHeight          = 120
)

// plot draws one.
type plot struct {
	strings.Builder
	steps      []Step
	mostN      float64
	low, high  float64 // logarithms of seconds
	mostGrowth float64 // seconds per second
}

// Plot writes an SVG: lag, and how it grows, by the number of streams.
func (r *Report) Plot(out io.Writer) error {
	p := &plot{steps: r.last(), mostN: 1, low: math.Log10(r.Limits.Lag.Seconds() / 10), high: math.Log10(r.Limits.Lag.Seconds() * 3), mostGrowth: 0.05}
	for _, s := range p.steps {
		p.mostN = max(p.mostN, float64(s.Streams))
		if lag := s.Measured.Lag.Seconds(); lag > 0 {
			p.low, p.high = min(p.low, math.Log10(lag/1.3)), max(p.high, math.Log10(lag*1.3))
		}
		if s.Measured.SlopeError < 1 {
			p.mostGrowth = max(p.mostGrowth, 1.15*s.Measured.Slope)
		}
	}
	p.mostGrowth = min(p.mostGrowth, 2)
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="#334155">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="34" font-size="20" font-weight="600" fill="#0f172a">%s</text>
<text x="%d" y="56" fill="#64748b">%s</text>
`, plotWidth, plotHeight, left, html.EscapeString(r.Verdict()), left, html.EscapeString(strings.Join(nonEmpty(r.URL, "profile "+r.Profile, r.Model, r.Version, r.At.UTC().Format(time.DateOnly)), " · ")))
	p.axes(r)
	p.points()
	p.WriteString("</svg>\n")
	_, err := io.WriteString(out, p.String())
	return err
}

func nonEmpty(all ...string) (some []string) {
	for _, text := range all {
		if text != "" {
			some = append(some, text)
		}
	}
	return some
}

func (p *plot) x(n float64) float64 {
	return left + (plotWidth-left-right)*n/(p.mostN*1.05)
}

func (p *plot) yLag(seconds float64) float64 {
	at := (math.Log10(max(seconds, 1e-6)) - p.low) / (p.high - p.low)
	return top + lagHeight*(1-max(at, 0))
}

func (p *plot) yGrowth(slope float64) float64 {
	at := (min(max(slope, -0.2*p.mostGrowth), p.mostGrowth) + 0.2*p.mostGrowth) / (1.2 * p.mostGrowth)
	return growthTop + growthHeight*(1-at)
}

func (p *plot) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(p, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2, style)
}

func (p *plot) text(x, y float64, style, text string) {
	fmt.Fprintf(p, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, html.EscapeString(text))
}

const grid, end = `stroke="#e2e8f0"`, `text-anchor="end" fill="#64748b"`

func (p *plot) axes(r *Report) {
	p.text(left, top-12, `font-weight="600"`, "Lag of results, 95th percentile")
	for decade := math.Floor(p.low); decade <= p.high; decade++ {
		for _, digit := range []float64{1, 2, 5} {
			seconds := digit * math.Pow(10, decade)
			if at := math.Log10(seconds); at >= p.low && at <= p.high {
				p.line(left, p.yLag(seconds), plotWidth-right, p.yLag(seconds), grid)
				p.text(left-8, p.yLag(seconds)+4, end, short(time.Duration(seconds*float64(time.Second))))
			}
		}
	}
	p.text(left, growthTop-12, `font-weight="600"`, "Growth of lag, in milliseconds per second, with its uncertainty")
	step := nice(p.mostGrowth / 3)
	for slope := 0.0; slope <= p.mostGrowth; slope += step {
		p.line(left, p.yGrowth(slope), plotWidth-right, p.yGrowth(slope), grid)
		p.text(left-8, p.yGrowth(slope)+4, end, fmt.Sprintf("%.0f", 1000*slope))
	}
	for n := 0.0; n <= p.mostN; n += max(1, nice(p.mostN/10)) {
		p.text(p.x(n), growthTop+growthHeight+20, `text-anchor="middle" fill="#64748b"`, fmt.Sprintf("%.0f", n))
	}
	p.text(plotWidth-right, growthTop+growthHeight+40, `text-anchor="end" fill="#64748b"`, "streams")
	limit := p.yLag(r.Limits.Lag.Seconds())
	p.line(left, limit, plotWidth-right, limit, `stroke="#f59e0b" stroke-width="1.5" stroke-dasharray="6 4"`)
	p.text(plotWidth-right-4, limit-6, `text-anchor="end" fill="#b45309"`, "limit "+short(r.Limits.Lag))
	if r.Connections > 0 {
		x := p.x(float64(r.Connections))
		p.line(x, top, x, growthTop+growthHeight, `stroke="#0f766e" stroke-width="1.5"`)
		p.text(x+6, top+14, `fill="#0f766e" font-weight="600"`, fmt.Sprint(r.Connections))
	}
}

// nice returns a number of at least this size that reads well.
func nice(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= least {
			return digit * power
		}
	}
	return 10 * power
}

func (p *plot) points() {
	colours := map[Verdict]string{Holds: "#0d9488", Fails: "#dc2626", Unclear: "#94a3b8"}
	for _, s := range p.steps {
		m, x, colour := s.Measured, p.x(float64(s.Streams)), colours[s.Verdict]
		title := html.EscapeString(strings.Join(nonEmpty(figures.Plural(s.Streams, "stream")+": "+string(s.Verdict), s.Why), ": "))
		if m.Lag > 0 {
			fmt.Fprintf(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5.5\" fill=\"%s\"><title>%s</title></circle>\n", x, p.yLag(m.Lag.Seconds()), colour, title)
		} else {
			p.text(x, top+lagHeight-6, `text-anchor="middle" font-weight="600" fill="`+colour+`"`, "×")
		}
		if m.SlopeError < 1 {
			p.line(x, p.yGrowth(m.Slope-m.SlopeError), x, p.yGrowth(m.Slope+m.SlopeError), `stroke="`+colour+`" stroke-width="2"`)
			fmt.Fprintf(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%s</title></circle>\n", x, p.yGrowth(m.Slope), colour, title)
		}
	}
	x := float64(left + 5)
	for _, v := range []Verdict{Holds, Fails, Unclear} {
		fmt.Fprintf(p, "<circle cx=\"%.1f\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", x, plotHeight-19, colours[v])
		p.text(x+10, plotHeight-15, "", string(v))
		x += 80
	}
}
