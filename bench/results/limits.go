package results

import (
	"math"
	"slices"
)

// limit is a budget at one place: a number that may not exceed most.
type limit struct {
	where       string
	value       Spread
	most        float64
	unit        string
	digits      int
	notMeasured string
	overloaded  bool // a program whose numbers these are could not carry the load, which may make them smaller
}

// ratios returns a function that makes a limit of each cell of a scenario: wsbouncer's number divided by a rival's. where, if not
// nil, selects the cells.
func ratios(scenario, rival, key string, most float64, where func(*Cell) bool) func(*Report) []limit {
	return inCells(scenario, rival, where, func(c *Cell) limit {
		return limit{value: c.Ratios(ours, rival, key), most: most, unit: "x", digits: 3, overloaded: c.overloaded(ours, rival)}
	})
}

// features does the same for a row of the scenario everything: its number divided by that of TLS alone.
func features(row, key string, most float64) func(*Report) []limit {
	return inCells(featureScenario, row, nil, func(c *Cell) limit {
		return limit{value: c.Ratios(row, ours, key), most: most, unit: "x", digits: 3, overloaded: c.overloaded(row, ours)}
	})
}

// bestRatios does the same for the best rival in each cell: the one with the lowest median of all that carry the load.
func bestRatios(scenario, key string, most float64) func(*Report) []limit {
	return func(r *Report) (limits []limit) {
		if s := r.Scenario(scenario); s != nil {
			for i := range s.Cells {
				c := &s.Cells[i]
				l := limit{where: c.Label, most: most, unit: "x", digits: 2, notMeasured: "no rival has a number"}
				if best := c.best(s.Rivals, key); best != "" {
					l.where, l.value, l.notMeasured, l.overloaded = c.Label+", "+best, c.Ratios(ours, best, key), "", c.overloaded(ours)
				}
				if l.notMeasured == "" && l.value.Count == 0 {
					l.notMeasured = r.absence(c, ours)
				}
				limits = append(limits, l)
			}
		}
		return limits
	}
}

// best returns the rival with the lowest median of a metric, of those that carry the load; "" if there is none.
func (c *Cell) best(rivals []string, key string) (name string) {
	least := math.Inf(1)
	for _, rival := range rivals {
		v := c.Values(rival, key)
		if slices.Contains(servers, rival) && !c.overloaded(rival) && v.Count > 0 && v.Median < least {
			name, least = rival, v.Median
		}
	}
	return name
}

// numbers does the same for wsbouncer's number itself.
func numbers(scenario, key, unit string, digits int, most float64, where func(*Cell) bool) func(*Report) []limit {
	return inCells(scenario, ours, where, func(c *Cell) limit {
		return limit{value: c.Values(ours, key), most: most, unit: unit, digits: digits, overloaded: c.overloaded(ours)}
	})
}

// inCells makes a limit of each cell. If it has no value, the limit says why the named rival has no number.
func inCells(scenario, rival string, where func(*Cell) bool, of func(*Cell) limit) func(*Report) []limit {
	return func(r *Report) (limits []limit) {
		s := r.Scenario(scenario)
		if s == nil {
			return nil
		}
		for i := range s.Cells {
			c := &s.Cells[i]
			if where != nil && !where(c) {
				continue
			}
			l := of(c)
			l.where = c.Label
			switch failed := c.trouble(ours).failures; {
			case l.value.Count == 0:
				l.notMeasured = r.absence(c, rival)
			case l.most == 0 && failed > 0: // what nobody could measure is no success
				l.value.Max = max(l.value.Max, float64(failed))
			}
			limits = append(limits, l)
		}
		return limits
	}
}

// growth compares the costs at two numbers of sessions in the same round.
func growth(r *Report) []limit {
	few := r.cell(relayScenario, func(c *Cell) bool { return c.Sessions == 500 && c.usual() })
	most := r.cell(relayScenario, func(c *Cell) bool { return c.Sessions == 9000 && c.usual() })
	if few == nil || most == nil {
		return nil
	}
	both := Cell{}
	for n := range min(len(few.Rounds), len(most.Rounds)) {
		both.Rounds = append(both.Rounds, Round{"few": few.Rounds[n][ours], "most": most.Rounds[n][ours]})
	}
	l := limit{where: most.Label, value: both.Ratios("most", "few", "cpu_us"), most: 1.1, unit: "x", digits: 3, overloaded: few.overloaded(ours) || most.overloaded(ours)}
	if l.value.Count == 0 {
		l.notMeasured = "no round has both"
	}
	return []limit{l}
}

// cell returns the first cell of a scenario that meets a condition, or nil.
func (r *Report) cell(scenario string, is func(*Cell) bool) *Cell {
	if s := r.Scenario(scenario); s != nil {
		for i := range s.Cells {
			if is(&s.Cells[i]) {
				return &s.Cells[i]
			}
		}
	}
	return nil
}

// usual reports whether messages have the usual size.
func (c *Cell) usual() bool { return c.Size == 1024 }

// absence tells why a rival has no number.
func (r *Report) absence(c *Cell, rival string) string {
	if slices.ContainsFunc(r.Rivals, func(known Rival) bool { return known.Name == rival && known.Missing != "" }) {
		return rival + " was skipped"
	}
	switch t := c.trouble(rival); {
	case t.failed != "":
		return rival + " failed"
	case t.skipped != "":
		return rival + " was skipped"
	}
	return "no numbers"
}
