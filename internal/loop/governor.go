package loop

// A loop is called busy above wakeShare of a processor. One is parked when what all do would keep the others below
// parkShare. The distance between the two, and the number of looks in a row that must agree, keep the number from
// swinging.
const (
	wakeShare   = 0.80
	parkShare   = 0.50
	wakeAfter   = 2
	parkAfter   = 12
	unevenAfter = 8
	unevenBy    = 0.30
)

type verdict int

const (
	keep verdict = iota
	wakeOne
	parkOne
	balance
)

// decision is what to do with the loops; from, to and share go with balance.
type decision struct {
	verdict  verdict
	from, to int
	share    float64
}

// governor decides from the loops' busy shares how many should be awake. It holds no clock and no loops.
type governor struct {
	lowest, highest       int
	busy, quiet, lopsided int // looks in a row
}

// decide takes the busy shares, from 0 to 1, of the loops that are awake.
func (g *governor) decide(shares []float64) decision {
	awake := len(shares)
	total, most, least := 0.0, 0, 0
	for i, s := range shares {
		total += s
		if s > shares[most] {
			most = i
		}
		if s < shares[least] {
			least = i
		}
	}
	count := func(n *int, condition bool) int {
		if !condition {
			*n = 0
		} else {
			*n++
		}
		return *n
	}
	busy := count(&g.busy, awake < g.highest && total > wakeShare*float64(awake))
	quiet := count(&g.quiet, awake > g.lowest && total < parkShare*float64(awake-1))
	lopsided := count(&g.lopsided, awake > 1 && shares[most] > wakeShare && shares[most]-shares[least] > unevenBy)
	switch {
	case awake > g.highest: // there are fewer processors than before
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: parkOne}
	case busy >= wakeAfter:
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: wakeOne}
	case quiet >= parkAfter:
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: parkOne}
	case lopsided >= unevenAfter:
		g.lopsided = 0
		return decision{verdict: balance, from: most, to: least, share: (shares[most] - shares[least]) / 2 / shares[most]}
	}
	return decision{}
}
