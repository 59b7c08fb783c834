package health

import (
	"time"
)

// A server that refuses a session because it is full is asked again soon, but not at once: its place may be another proxy's or a direct
// client's, may take a moment to come free (Kaldi's workers are away for a second after each session), or is given at a limited rate.
const (
	// FirstHold is for how long a server that has refused a session gets no other, or up to a quarter less. It doubles with each further
	// refusal.
	FirstHold = 100 * time.Millisecond
	// LastHold is the longest such time.
	LastHold = 5 * time.Second
	// holdMemory is for how long after that a refusal is one more of the same kind.
	holdMemory = 2 * time.Second
	// refusedWithin is within which time two clients must be refused for the server to be full for all, if there are several.
	refusedWithin = LastHold + holdMemory
	// holdsBeforeCeiling is how many times in a row a server that serves sessions refuses others before it is taken to be full for longer.
	holdsBeforeCeiling = 5
)

// hold keeps sessions from a server that has just refused one.
type hold struct {
	random random
	until  Instant
	steps  int // refusals in a row
	others int // sessions that the server served at the last one
}

// refuse notes that the server has refused a session beside the given number of others. A server that serves more of them than at the last refusal has
// accepted some since. If it has refused sessions of one client only, it may accept others.
func (h *hold) refuse(others int, one bool, now Instant) {
	switch {
	case now < h.until: // it was asked before the last refusal
		return
	case one:
		h.until, h.steps = now+Instant(FirstHold), 0
		return
	case now > h.until+Instant(holdMemory) || others > h.others:
		h.steps = 0
	}
	h.until = now + Instant(h.random.jittered(min(LastHold, FirstHold<<min(h.steps, 10))))
	h.steps, h.others = h.steps+1, others
}

// lasts reports whether the server is likely to stay full: it serves no client of this proxy, or refuses again and again.
func (h *hold) lasts() bool { return h.others <= 0 || h.steps > holdsBeforeCeiling }

const (
	// FullPause is how long, or up to a quarter less, a server that is full is asked for no more connections.
	FullPause   = 30 * time.Second
	raiseEvery  = 5 * time.Second // or up to a quarter less: between two steps up after that
	raiseDivide = 10              // a step is the cap divided by this, and at least one connection
)

// ceiling is how many connections a server accepts at present, when that is fewer than its cap.
type ceiling struct {
	random  random
	value   int     // 0: as many as the cap
	seen    int     // the value at the last refusal, which raising it leaves; 0 with a value of 0
	raiseAt Instant // when to raise it by a step
}

// lower sets the ceiling after the server has refused a connection beside the given number of others. It returns whether there was none.
func (c *ceiling) lower(others int, now Instant) (first bool) {
	first = c.value == 0
	if others = max(others, 1); first || others < c.value {
		c.value = others
	}
	c.seen = c.value
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
		c.value, c.seen = 0, 0
	}
	return c.value == 0
}
