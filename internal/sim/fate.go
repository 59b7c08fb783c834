package sim

import "math/rand/v2"

// verdict is what happens when a message is to be answered.
type verdict uint8

const (
	answers       verdict = iota
	resets                // FailOptions.Reset
	closes                // FailOptions.Close
	stalls                // FailOptions.Stall
	breaksOff             // FailOptions.MidFrame
	breaksMessage         // NastyOptions.CloseMidMessage
)

// fate is what is in store for the answer to a message.
type fate struct {
	verdict verdict
	late    bool // a late message follows the answer
}

// draw throws the dice for one message. When several failures are drawn, the first of the list above happens.
func (f *FailOptions) draw(dice *rand.Rand) (drawn fate) {
	hit := func(p float64) bool { return p > 0 && dice.Float64() < p }
	for _, possible := range [...]struct {
		verdict verdict
		p       float64
	}{{resets, f.Reset}, {closes, f.Close}, {stalls, f.Stall}, {breaksOff, f.MidFrame}} {
		// Each is drawn, even when it cannot count any more, so that the draws of later messages do not depend on it.
		if hit(possible.p) && drawn.verdict == answers {
			drawn.verdict = possible.verdict
		}
	}
	drawn.late = hit(f.Late)
	return drawn
}
