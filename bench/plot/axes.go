package plot

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// axes finds what the axes have to reach.
func (c Chart) axes() (x, y axis, err error) {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			for _, v := range []float64{p.X, p.Y} {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return x, y, fmt.Errorf("%s has a point at (%g, %g)", s.Name, p.X, p.Y)
				}
			}
			if (c.LogX && p.X <= 0) || (c.LogY && p.Y <= 0) {
				return x, y, fmt.Errorf("%s has a point at (%g, %g), which a logarithmic axis cannot show", s.Name, p.X, p.Y)
			}
			xs, ys = append(xs, p.X), append(ys, p.Y, max(p.Y, p.Max))
		}
	}
	if len(xs) == 0 {
		return x, y, errors.New("there is nothing to draw")
	}
	slices.Sort(xs)
	x = axis{least: xs[0], most: xs[len(xs)-1], from: left + 16, to: width - right - 16, log: c.LogX, ticks: c.XTicks}
	if x.ticks == nil {
		x.ticks = slices.Compact(xs)
	}
	y = axis{least: slices.Min(ys), most: slices.Max(ys), from: height - bottom, to: top, log: c.LogY}
	if c.LogY {
		y.spread()
	} else {
		y.fromZero()
	}
	return x, y, nil
}

// fromZero makes a linear axis that begins at 0, with about six ticks.
func (a *axis) fromZero() {
	step := 1.0
	if a.most > 0 {
		step = round(a.most / 6)
	}
	a.least, a.ticks = 0, nil
	a.most = max(step, math.Ceil(a.most/step-1e-9)*step)
	for n := 0.0; n*step <= a.most*(1+1e-9); n++ {
		a.ticks = append(a.ticks, n*step)
	}
}

// round returns the next of 1, 2, 5, 10, 20 and so on.
func round(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// spread makes a logarithmic axis that reaches from tick to tick.
func (a *axis) spread() {
	var all []float64
	for power := math.Floor(math.Log10(a.least)) - 1; power <= math.Ceil(math.Log10(a.most))+1; power++ {
		for _, factor := range []float64{1, 2, 5} {
			all = append(all, factor*math.Pow(10, power))
		}
	}
	first, last := 0, len(all)-1
	for first+1 < len(all) && all[first+1] <= a.least*(1+1e-9) {
		first++
	}
	for last > first+1 && all[last-1] >= a.most*(1-1e-9) {
		last--
	}
	a.ticks = all[first : last+1]
	a.least, a.most = a.ticks[0], a.ticks[len(a.ticks)-1]
}
