//go:build linux

package endurance

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// verdict is what the samples show of a figure.
type verdict struct {
	figure
	where            string  // in what it was to stay flat
	slope, deviation float64 // the standard error
	limit            float64 // with the tolerance
	samples          int
}

// What a verdict says. The slope is known to twice its error.
const (
	flat      = "flat"
	grows     = "GROWS"
	unclear   = "unclear"
	unsampled = "NO SAMPLES"
)

func (v *verdict) word() string {
	switch {
	case v.samples == 0:
		return unsampled
	case math.IsNaN(v.deviation):
		return unclear
	case v.slope-2*v.deviation > v.limit:
		return grows
	case v.slope+2*v.deviation > v.limit:
		return unclear
	}
	return flat
}

const (
	inProcess = "in each process"
	inRun     = "over the run"
)

// looser multiplies the limits in each process: what lasts for an hour shows a slope less exactly than the run.
const looser = 5

// point is a sample of a figure.
type point struct {
	hours, value float64
	life         int // of the process; 0 for all
}

// judge returns a verdict on each figure over the run, without the first warmup hours of each process for those that begin anew with it. It judges these
// in each process as well: what an upgrade gives back is a leak all the same.
func judge(all []record, warmup, tolerance float64) (verdicts []verdict) {
	for _, f := range figures {
		var run, lives []point
		life, began, of := 0, 0.0, ""
		for _, r := range all {
			if r.Life != of && r.Life != "" {
				life, began, of = life+1, r.Hours, r.Life
			}
			value, ok := r.Values[f.name]
			if !ok || r.Hours < warmup || f.process && r.Hours-began < warmup {
				continue
			}
			run, lives = append(run, point{r.Hours, value, 0}), append(lives, point{r.Hours, value, life})
		}
		add := func(where string, limit float64, points []point) {
			v := verdict{figure: f, where: where, limit: limit * tolerance, samples: len(points)}
			v.slope, v.deviation = fit(points)
			verdicts = append(verdicts, v)
		}
		if f.process {
			add(inProcess, looser*f.limit, lives)
		}
		add(inRun, f.limit, run)
	}
	return verdicts
}

// The time of a fit is divided into at most mostParts parts, with leastSamples samples each on average. Fewer than leastParts are too few.
const (
	mostParts    = 24
	leastSamples = 10
	leastParts   = 6
)

// fit returns the slope of points in an hour, with an intercept for each life, and its standard error; NaN for too few. Samples that are near depend on
// each other: each part of the time in a life is one observation (as in internal/lab/streams).
func fit(points []point) (slope, standardError float64) {
	type mean struct{ n, x, y float64 }
	means := make(map[int]mean)
	first, last := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		m := means[p.life]
		means[p.life] = mean{m.n + 1, m.x + p.hours, m.y + p.value}
		first, last = min(first, p.hours), max(last, p.hours)
	}
	centred := func(p point) (x, y float64) {
		m := means[p.life]
		return p.hours - m.x/m.n, p.value - m.y/m.n
	}
	sxx, sxy := 0.0, 0.0
	for _, p := range points {
		x, y := centred(p)
		sxx, sxy = sxx+x*x, sxy+x*y
	}
	slope = sxy / sxx
	type block struct{ life, part int }
	scores, parts := make(map[block]float64), float64(min(mostParts, len(points)/leastSamples))
	for _, p := range points {
		x, y := centred(p)
		scores[block{p.life, int(parts * (p.hours - first) / (last - first))}] += x * (y - slope*x)
	}
	sum, n := 0.0, float64(len(scores))
	for _, s := range scores {
		sum += s * s
	}
	if parts < leastParts {
		return slope, math.NaN()
	}
	return slope, math.Sqrt(sum*n/(n-1)) / sxx
}

// mostPoints is how many points a plot has at most, each the mean of some samples.
const mostPoints = 400

// conclude writes the report with its plots, and returns an error that names what grows and what was found.
func (o *Options) conclude(all []record) error {
	count, found, hours := make(map[string]int), make(map[string]int), 0.0
	for _, r := range all {
		for what, n := range r.Count {
			count[what] += n
		}
		for what, n := range r.Found {
			found[what] += n
		}
		hours = r.Hours
	}
	var wrong []error
	if len(found) > 0 {
		wrong = append(wrong, fmt.Errorf("found: %s; see %s", kit.Tallied(found), o.file("events")))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Endurance\n\n%v under load. %s.\n\nFound: %s.\n\n", time.Duration(hours*float64(time.Hour)).Round(time.Second), kit.Tallied(count), kit.Tallied(found))
	b.WriteString("| figure | | per hour | standard error | limit | verdict |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, v := range judge(all, o.Warmup.Hours(), o.Tolerance) {
		fmt.Fprintf(&b, "| %s | %s | %.3g | %.2g | %g | %s |\n", v.name, v.where, v.slope, v.deviation, v.limit, v.word())
		switch v.word() {
		case grows:
			wrong = append(wrong, fmt.Errorf("%s: grows %s by %.3g an hour (standard error %.2g), and %g is allowed", v.name, v.where, v.slope, v.deviation, v.limit))
		case unsampled:
			wrong = append(wrong, fmt.Errorf("%s: no sample %s after the warm-up, so nothing was proven", v.name, v.where))
		case unclear:
			if o.Tolerance > 1 { // for runs that are too short to tell
				continue
			}
			wrong = append(wrong, fmt.Errorf("%s: whether it grows %s does not show (%.3g an hour, standard error %.2g): sample longer or more often", v.name, v.where, v.slope, v.deviation))
		}
	}
	fmt.Fprintf(&b, "\n`%s` and `%s` hold at twice the standard error. Otherwise the run was too short.\n", flat, grows)
	fmt.Fprintf(o.Out, "\n%s\nThe report is %s.\n", b.String(), o.file("report.md"))
	for i, f := range figures {
		svg, err := plot(f, all)
		name := fmt.Sprintf("plot-%d.svg", i+1)
		if err := errors.Join(err, os.WriteFile(o.file(name), []byte(svg), 0o644)); err != nil {
			wrong = append(wrong, err)
		}
		fmt.Fprintf(&b, "\n![%s](%s)\n", f.name, name)
	}
	return errors.Join(append(wrong, os.WriteFile(o.file("report.md"), []byte(b.String()), 0o644))...)
}

// plot draws a figure over the hours.
func plot(f figure, all []record) (string, error) {
	line := report.ChartLine{Name: f.name, Strong: true}
	each := float64(len(all)/mostPoints + 1)
	var sum report.ChartPoint
	n := 0.0
	for _, r := range all {
		if v, ok := r.Values[f.name]; ok {
			sum.X, sum.Y, n = sum.X+r.Hours, sum.Y+v, n+1
		}
		if n == each {
			line.Points = append(line.Points, report.ChartPoint{X: sum.X / n, Y: sum.Y / n})
			sum, n = report.ChartPoint{}, 0
		}
	}
	return report.Chart{Title: f.name, X: "hours", Linear: true, Lines: []report.ChartLine{line}}.SVG()
}
