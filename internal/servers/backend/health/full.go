package health

import "time"

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

// refuse notes that the server has refused a session beside so many others. A server that serves more of them than at the last refusal has
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

// lasts reports whether the server is likely to stay full: it serves nobody here, or refuses again and again.
func (h *hold) lasts() bool { return h.others <= 0 || h.steps > holdsBeforeCeiling }
