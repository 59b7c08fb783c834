package health

import "time"

const (
	// FullPause is how long, or up to a quarter less, a server that is full is asked for no more connections.
	FullPause   = 30 * time.Second
	raiseEvery  = 5 * time.Second // or up to a quarter less: between two steps up after that
	raiseDivide = 10              // a step is this part of the cap, and at least one connection
)

// ceiling is how many connections a server accepts at present, when that is fewer than its cap.
type ceiling struct {
	random  random
	value   int     // 0: as many as the cap
	raiseAt Instant // when to raise it by a step
}

// lower sets the ceiling after the server has refused a connection beside so many others. It returns whether there was none.
func (c *ceiling) lower(others int, now Instant) (first bool) {
	first = c.value == 0
	if others = max(others, 1); first || others < c.value {
		c.value = others
	}
	c.raiseAt = now + Instant(c.random.jittered(FullPause))
	return first
}

// raise raises the ceiling by a step when it is time, until it reaches the cap. It returns whether it has lifted the ceiling.
func (c *ceiling) raise(limit int, now Instant) (lifted bool) {
	if c.value == 0 || now < c.raiseAt {
		return false
	}
	c.value += max(1, limit/raiseDivide)
	c.raiseAt = now + Instant(c.random.jittered(raiseEvery))
	if c.value >= limit {
		c.value = 0
	}
	return c.value == 0
}
