package results

import (
	"fmt"
	"math"
	"strings"
)

// tolerance is an excess that does not count: less than what is printed.
const tolerance = 0.0005

// notMeasured is the verdict on a budget for which there is no number.
const notMeasured = "not measured"

// Verdict is whether a budget was met.
type Verdict struct {
	Budget   string
	Verdict  string // met, missed by how much, or not measured
	Measured string // the worst place
	Met      bool   // at all places that were measured, of which there is at least one
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
	v := Verdict{Budget: text}
	var worst limit
	var missed, absent []string
	measured, worstExcess := 0, math.Inf(-1)
	for _, l := range limits {
		if l.notMeasured != "" {
			absent = append(absent, l.where+": "+l.notMeasured)
			continue
		}
		measured++
		excess := l.excess()
		if excess > worstExcess {
			worst, worstExcess = l, excess
		}
		if excess > tolerance {
			missed = append(missed, l.shortfall())
		}
	}
	switch {
	case measured == 0:
		v.Verdict = notMeasured
	case len(missed) == 0:
		v.Verdict, v.Met = "**met**", true
	default:
		v.Verdict = fmt.Sprintf("**missed** at %d of %d: %s", len(missed), measured, strings.Join(missed, "; "))
	}
	if measured > 0 {
		v.Measured = fmt.Sprintf("worst %s %s at %s; limit %.*f", worst.value.Text(worst.digits), worst.unit, worst.where, worst.digits, worst.most)
		if worst.besideOverload {
			v.Measured += "; not all carried this load"
		}
	}
	if len(absent) > 0 {
		v.Measured = strings.TrimPrefix(v.Measured+"; not measured: "+strings.Join(absent, ", "), "; ")
	}
	return v
}

// excess returns by which share the value exceeds the limit; negative if it does not.
func (l limit) excess() float64 {
	if l.most == 0 {
		return l.value.Median
	}
	return l.value.Median/l.most - 1
}

// shortfall says by how much the limit is missed.
func (l limit) shortfall() string {
	text := fmt.Sprintf("%s by %.1f %%", l.where, 100*l.excess())
	if l.most == 0 {
		text = fmt.Sprintf("%s: %.*f", l.where, l.digits, l.value.Median)
	}
	if l.value.Min <= l.most && l.value.Count > 1 {
		text += " (within the spread)"
	}
	return text
}
