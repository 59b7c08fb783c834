package results

import (
	"fmt"
	"math"
	"slices"
)

// Spread is a number over all rounds.
type Spread struct {
	Median, Min, Max float64
	Count            int // of rounds; 0: there is no number
}

// NewSpread returns the spread of some values.
func NewSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values), len(values)}
}

// Text shows the median, and the extremes if there is more than one round; a hyphen if there is none.
func (s Spread) Text(digits int) string {
	switch s.Count {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.*f", digits, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}

// Median returns the middle of some values, or the mean of the two in the middle. There must be at least one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile returns the least of some values that is not exceeded by a share q of them (nearest rank). There must be at least one.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Values returns the spread of a rival's values of one metric.
func (c *Cell) Values(rival, key string) Spread {
	var values []float64
	for _, round := range c.Rounds {
		if v, ok := round[rival].Values[key]; ok {
			values = append(values, v)
		}
	}
	return NewSpread(values)
}

// Ratios returns the spread of the ratios of a rival's values to another's in the same round.
func (c *Cell) Ratios(rival, base, key string) Spread {
	var ratios []float64
	for _, round := range c.Rounds {
		v, ok := round[rival].Values[key]
		of, okBase := round[base].Values[key]
		if ok && okBase && of > 0 {
			ratios = append(ratios, v/of)
		}
	}
	return NewSpread(ratios)
}

// trouble says what went wrong in a rival's runs.
type trouble struct {
	skipped, failed, overload string // the last of each
	failures, runs            int
}

func (c *Cell) trouble(rival string) (t trouble) {
	for _, round := range c.Rounds {
		run, ok := round[rival]
		if !ok {
			continue
		}
		t.runs++
		if run.Skipped != "" {
			t.skipped = run.Skipped
		}
		if run.Error != "" {
			t.failed = run.Error
			t.failures++
		}
		if run.Overload != "" {
			t.overload = run.Overload
		}
	}
	return t
}

// overloaded reports whether one of these programs could not carry the load in a round.
func (c *Cell) overloaded(rivals ...string) bool {
	return slices.ContainsFunc(rivals, func(rival string) bool { return c.trouble(rival).overload != "" })
}

// word says in one word why there is no number.
func (t trouble) word() string {
	switch {
	case t.failed != "":
		return "failed"
	case t.skipped != "":
		return "skipped"
	}
	return "-"
}
