package results

import (
	"fmt"
	"math"
	"strings"
)

// tolerance is an excess that does not count: less than what is printed.
const tolerance = 0.0005

// The verdicts on a budget. It is met or missed only where all rounds agree.
const (
	met         = "met"
	missed      = "missed"
	undecided   = "undecided"
	notMeasured = "not measured"
)

// Verdict is whether a budget was met.
type Verdict struct {
	Budget   string
	Verdict  string // met, missed, undecided or not measured: missed if it is at one place, and met if it is at all that were measured
	Where    string // it is not met, and by how much
	Measured string // the worst place
}

// Judge returns the verdict on each budget. What could not be measured is not met.
func (r *Report) Judge() []Verdict {
	var verdicts []Verdict
	for _, b := range budgets() {
		verdicts = append(verdicts, judge(b.text, b.limits(r)))
	}
	return verdicts
}

func judge(text string, limits []limit) Verdict {
	v := Verdict{Budget: text, Verdict: notMeasured}
	var worst limit
	var not, absent, overloaded []string
	worstExcess, of := math.Inf(-1), map[string]int{}
	for _, l := range limits {
		if l.notMeasured != "" {
			absent = append(absent, l.where+": "+l.notMeasured)
			continue
		}
		if excess := l.excess(); excess > worstExcess {
			worst, worstExcess = l, excess
		}
		is := l.verdict()
		of[is]++
		if l.overloaded {
			overloaded = append(overloaded, l.where)
		}
		if is != met {
			not = append(not, l.shortfall(is))
		}
	}
	for _, is := range []string{met, undecided, missed} {
		if of[is] > 0 {
			v.Verdict = is
		}
	}
	v.Where = strings.Join(not, "; ")
	if v.Verdict != notMeasured {
		v.Measured = fmt.Sprintf("worst %s %s at %s; limit %.*f", worst.value.Text(worst.digits), worst.unit, worst.where, worst.digits, worst.most)
		if len(overloaded) > 0 {
			v.Measured += "; not all programs carried the load at " + strings.Join(overloaded, ", ")
		}
	}
	if len(absent) > 0 {
		v.Measured = strings.TrimPrefix(v.Measured+"; not measured: "+strings.Join(absent, ", "), "; ")
	}
	return v
}

// verdict returns whether the value is below the limit in all rounds, or above it in all. One round decides nothing, unless nothing may happen at all. Nor
// is a limit met by a program that did not do all of the work.
func (l limit) verdict() string {
	exceeds := func(v float64) bool { return v > l.most*(1+tolerance) }
	switch {
	case l.most == 0 && l.value.Max > 0:
		return missed
	case l.most == 0 && !l.overloaded:
		return met
	case l.value.Count < 2 || !exceeds(l.value.Max) && l.overloaded:
		return undecided
	case !exceeds(l.value.Max):
		return met
	case exceeds(l.value.Min):
		return missed
	}
	return undecided
}

// excess returns by which share the median exceeds the limit; negative if it does not.
func (l limit) excess() float64 {
	if l.most == 0 {
		return l.value.Max
	}
	return l.value.Median/l.most - 1
}

// shortfall says by how much the limit is missed, or may be.
func (l limit) shortfall(is string) string {
	if l.most == 0 {
		return fmt.Sprintf("%s at %s: %.*f", is, l.where, l.digits, l.value.Max)
	}
	return fmt.Sprintf("%s at %s: %+.1f %%", is, l.where, 100*l.excess())
}
