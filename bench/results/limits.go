package results

// limit is a budget at one place: a number that may not be more than most.
type limit struct {
	where          string
	value          Spread
	most           float64
	unit           string
	digits         int
	notMeasured    string
	besideOverload bool // one side of a ratio did not bear the load
}

// compare is a ratio in the relay scenario.
func (r *Report) compare(rival, base, key string, most float64, where func(*Cell) bool) []limit {
	return r.ratios(relaying, rival, base, key, most, where)
}

// ratios returns a limit for each cell of a scenario.
func (r *Report) ratios(scenario, rival, base, key string, most float64, where func(*Cell) bool) []limit {
	return r.each(scenario, where, func(c *Cell) limit {
		l := limit{value: c.Ratios(rival, base, key), most: most, unit: "x", digits: 3}
		l.besideOverload = c.trouble(rival).overload != "" || c.trouble(base).overload != ""
		if l.value.Count == 0 {
			l.notMeasured = r.absence(c, base)
		}
		return l
	})
}

// absolute returns a limit of our own value for each cell.
func (r *Report) absolute(scenario, key, unit string, digits int, most float64, where func(*Cell) bool) []limit {
	return r.each(scenario, where, func(c *Cell) limit {
		l := limit{value: c.Values(ours, key), most: most, unit: unit, digits: digits}
		if l.value.Count == 0 {
			l.notMeasured = r.absence(c, ours)
		}
		return l
	})
}

func (r *Report) each(scenario string, where func(*Cell) bool, of func(*Cell) limit) []limit {
	s := r.Scenario(scenario)
	if s == nil {
		return nil
	}
	var limits []limit
	for i := range s.Cells {
		c := &s.Cells[i]
		if where != nil && !where(c) {
			continue
		}
		l := of(c)
		l.where = c.Label
		limits = append(limits, l)
	}
	return limits
}

// growth compares the same round's costs at two numbers of sessions.
func growth(r *Report) []limit {
	few, most := r.relayed(500), r.relayed(9000)
	if few == nil || most == nil {
		return nil
	}
	var ratios []float64
	for n := range min(len(few.Rounds), len(most.Rounds)) {
		a, okA := few.Rounds[n][ours].Values["cpu_us"]
		b, okB := most.Rounds[n][ours].Values["cpu_us"]
		if okA && okB && a > 0 {
			ratios = append(ratios, b/a)
		}
	}
	l := limit{where: most.Label, value: NewSpread(ratios), most: 1.1, unit: "x", digits: 3}
	if len(ratios) == 0 {
		l.notMeasured = "no round has both"
	}
	return []limit{l}
}

// relayed returns the cell of the growth series with so many sessions.
func (r *Report) relayed(sessions int) *Cell {
	s := r.Scenario(relaying)
	if s == nil {
		return nil
	}
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Sessions == sessions && c.Size == 1024 && !c.light() {
			return c
		}
	}
	return nil
}

// light tells whether the load is so low that all rivals bear it.
func (c *Cell) light() bool { return float64(c.Sessions)*c.Rate < 5000 && c.Size <= 1024 }

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
