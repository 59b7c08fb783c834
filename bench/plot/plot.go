// Package plot draws line charts as SVG: a few series of points over an axis that both may be logarithmic, with a legend. Charts
// have a white ground, so that they can be read in a dark page as well. Its functions may be called from any goroutine.
package plot

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is what is drawn.
type Chart struct {
	Title  string
	X, Y   string // what the axes show, with the unit
	LogX   bool
	LogY   bool
	XTicks []float64 // default: all x of the points
	Series []Series
}

// Series is a line, of one colour. A series without points is in the legend all the same, with its note.
type Series struct {
	Name   string
	Note   string
	Strong bool // drawn thicker, above the others
	Points []Point
}

// Point is one point of a line, with the least and the most that was measured there.
type Point struct {
	X, Y     float64
	Min, Max float64 // both 0: no bar
}

const (
	width, height            = 900, 440
	left, right, top, bottom = 74, 254, 44, 56
)

// colours can be told apart by those who see no red or no green (Okabe and Ito's, and greys).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#666666", "#a6761d", "#222222"}

// SVG returns the drawing. It fails when there is no point at all, or one that an axis cannot show.
func (c Chart) SVG() (string, error) {
	x, y, err := c.axes()
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Title, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", html.EscapeString(c.Title), width, height)
	text(&b, left, 26, "start", `font-size="16" font-weight="600"`, c.Title)
	for _, tick := range y.ticks {
		at := y.place(tick)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", left, at, width-right, at)
		text(&b, left-8, at+4, "end", "", short(tick))
	}
	for _, tick := range x.ticks {
		at := x.place(tick)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#444444"/>`+"\n", at, height-bottom, at, height-bottom+5)
		text(&b, at, height-bottom+20, "middle", "", short(tick))
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#444444"/>`+"\n", left, top, height-bottom, width-right)
	text(&b, (left+width-right)/2, height-14, "middle", "", c.X)
	fmt.Fprintf(&b, `<g transform="translate(18 %d) rotate(-90)">`, (top+height-bottom)/2)
	text(&b, 0, 0, "middle", "", c.Y)
	b.WriteString("</g>\n")
	c.lines(&b, x, y)
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// lines draws the series and the legend; the strong ones last.
func (c Chart) lines(b *strings.Builder, x, y axis) {
	for _, strong := range []bool{false, true} {
		for i, s := range c.Series {
			if s.Strong != strong {
				continue
			}
			colour, weight := colours[i%len(colours)], 1.8
			if strong {
				weight = 3.6
			}
			var path []string
			for _, p := range s.Points {
				px, py := x.place(p.X), y.place(p.Y)
				path = append(path, fmt.Sprintf("%.1f,%.1f", px, py))
				if p.Max > p.Min {
					fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" opacity="0.5"/>`+"\n",
						px, y.place(max(p.Min, y.least)), px, y.place(p.Max), colour)
				}
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`+"\n", px, py, weight+1, colour)
			}
			fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"/>`+"\n", strings.Join(path, " "), colour, weight)
			at := top + 10 + 24*i
			fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="%.1f"/>`+"\n",
				width-right+14, at, width-right+38, at, colour, weight)
			name := s.Name
			if s.Note != "" {
				name += ", " + s.Note
			}
			text(b, width-right+46, float64(at)+4, "start", "", name)
		}
	}
}

func text[X, Y int | float64](b *strings.Builder, x X, y Y, anchor, style, content string) {
	if style == "" {
		style = `fill="#222222"`
	} else {
		style += ` fill="#111111"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", float64(x), float64(y), anchor, style, html.EscapeString(content))
}

// short shows a tick with thousands separated.
func short(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return strings.Join(groups, ",")
}

// axis turns values into places.
type axis struct {
	least, most float64
	from, to    float64 // in the drawing
	log         bool
	ticks       []float64
}

func (a axis) place(v float64) float64 {
	at := func(v float64) float64 {
		if a.log {
			return math.Log(v)
		}
		return v
	}
	if a.most == a.least {
		return (a.from + a.to) / 2
	}
	return a.from + (at(v)-at(a.least))/(at(a.most)-at(a.least))*(a.to-a.from)
}
