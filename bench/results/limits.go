package results

// limit is a budget at one place: a number that may not exceed most.
type limit struct {
	where          string
	value          Spread
	most           float64
	unit           string
	digits         int
	notMeasured    string
	besideOverload bool // one side of a ratio could not carry the load
}

// ratios returns a function that makes a limit of each cell of a scenario: wsbouncer's number divided by a rival's. where, if not
// nil, selects the cells.
func ratios(scenario, rival, key string, most float64, where func(*Cell) bool) func(*Report) []limit {
	return inCells(scenario, rival, where, func(c *Cell) limit {
		return limit{
			value: c.Ratios(ours, rival, key), most: most, unit: "x", digits: 3,
			besideOverload: c.trouble(ours).overload != "" || c.trouble(rival).overload != "",
		}
	})
}

// numbers does the same for wsbouncer's number itself.
func numbers(scenario, key, unit string, digits int, most float64, where func(*Cell) bool) func(*Report) []limit {
	return inCells(scenario, ours, where, func(c *Cell) limit {
		return limit{value: c.Values(ours, key), most: most, unit: unit, digits: digits}
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
			if l.value.Count == 0 {
				l.notMeasured = r.absence(c, rival)
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
	l := limit{where: most.Label, value: both.Ratios("most", "few", "cpu_us"), most: 1.1, unit: "x", digits: 3}
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

// light reports whether the load is so low that all rivals can carry it.
func (c *Cell) light() bool { return float64(c.Sessions)*c.Rate < 5000 && c.Size <= 1024 }

// usual reports whether messages have the usual size and rate.
func (c *Cell) usual() bool { return c.Size == 1024 && !c.light() }

// absence tells why a rival has no number.
func (r *Report) absence(c *Cell, rival string) string {
	for _, known := range r.Rivals {
		if known.Name == rival && known.Missing != "" {
			return rival + " was skipped"
		}
	}
	switch t := c.trouble(rival); {
	case t.failed != "":
		return rival + " failed"
	case t.skipped != "":
		return rival + " was skipped"
	}
	return "no numbers"
}
