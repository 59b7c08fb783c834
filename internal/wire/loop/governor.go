package loop

// The group wakes another loop when the awake ones use more than wakeShare of a processor each on average, and parks one when the
// others could do its work and still use less than parkShare. The distance between the two, and the number of decisions in a row
// that must agree, keep the number of awake loops from swinging.
const (
	wakeShare   = 0.80
	parkShare   = 0.50
	wakeAfter   = 2
	parkAfter   = 12
	unevenAfter = 8    // decisions in a row after which two loops are balanced
	unevenBy    = 0.30 // the difference of two loops' shares from which on they are
)

type verdict int

const (
	keep verdict = iota
	wakeOne
	parkOne
	balance
)

// decision is what to do with the loops. With balance, the loop from moves a share of what it has to the loop to.
type decision struct {
	verdict  verdict
	from, to int
	share    float64
}

// governor decides from the loops' busy shares how many of them should be awake. It has no clock and no loops.
type governor struct {
	lowest, highest     int // numbers of awake loops
	busy, quiet, uneven int // for how many decisions in a row the loops have been so
}

// decide decides, given the busy shares of the awake loops, from 0 to 1.
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
	uneven := count(&g.uneven, awake > 1 && shares[most] > wakeShare && shares[most]-shares[least] > unevenBy)
	switch {
	case awake > g.highest: // the process may use fewer processors than before
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: parkOne}
	case busy >= wakeAfter:
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: wakeOne}
	case quiet >= parkAfter:
		*g = governor{lowest: g.lowest, highest: g.highest}
		return decision{verdict: parkOne}
	case uneven >= unevenAfter:
		g.uneven = 0
		return decision{verdict: balance, from: most, to: least, share: (shares[most] - shares[least]) / 2 / shares[most]}
	}
	return decision{}
}
