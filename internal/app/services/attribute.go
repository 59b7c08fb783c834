package services

// candidate is a server at which a waiting client may get a place.
type candidate struct {
	server string
	size   int // connections that it accepts
	weight float64
	limit  int // connections that this proxy may have
	usable bool
	needs  int // places that this proxy's sessions use
	others int // places that the other proxies need

	attributed int // clients, see attribute
}

// attributeSteps bounds the work of attribute: clients are dealt out one by one, unless there are more.
const attributeSteps = 1000

// attribute deals waiting clients out to the servers, so that the ledger is asked for places where the clients would get them: within what
// this proxy has, then where the fleet leaves room, then where it does not, each time at the least loaded server; at those that work, if
// any does. All clients are dealt out: what they need beyond the caps tells how many servers are missing.
func attribute(waiting int, servers []candidate) {
	works := false
	for i := range servers {
		works = works || servers[i].usable
	}
	for step := max(1, waiting/attributeSteps); waiting > 0; waiting -= step {
		step = min(step, waiting)
		var best *candidate
		for i := range servers {
			c := &servers[i]
			if c.usable == works && (best == nil || c.before(best, step)) {
				best = c
			}
		}
		best.attributed += step
	}
}

// before tells which of two servers gets the next clients.
func (c *candidate) before(other *candidate, n int) bool {
	if a, b := c.class(n), other.class(n); a != b {
		return a < b
	}
	return c.load(n) < other.load(n)
}

// class tells whether clients find room: 0 within the limit, 1 within what the fleet leaves, 2 not.
func (c *candidate) class(n int) int {
	needs := c.needs + c.attributed + n
	switch {
	case needs <= c.limit:
		return 0
	case needs+c.others <= c.size:
		return 1
	}
	return 2
}

// load is the part of the server that would be in use.
func (c *candidate) load(n int) float64 {
	return float64(c.needs+c.attributed+n+c.others) / (float64(max(c.size, 1)) * c.weight)
}
