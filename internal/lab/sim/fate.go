package sim

import "math/rand/v2"

// verdict is what happens instead of an answer.
type verdict uint8

const (
	answers       verdict = iota
	resets                // FailOptions.Reset
	closes                // FailOptions.Close
	stalls                // FailOptions.Stall
	endsInFrame           // FailOptions.MidFrame
	dies                  // FailOptions.OOM
	endsInMessage         // NastyOptions.CloseMidMessage
)

// fate is what happens to the answer to a message.
type fate struct {
	verdict verdict
	late    bool // a late message follows the answer
}

// draw draws the fate of one answer. If it draws several failures, the first of the list above happens.
func (f *FailOptions) draw(dice *rand.Rand) (drawn fate) {
	hit := func(p float64) bool { return p > 0 && dice.Float64() < p }
	for _, possible := range [...]struct {
		verdict verdict
		p       float64
	}{{resets, f.Reset}, {closes, f.Close}, {stalls, f.Stall}, {endsInFrame, f.MidFrame}, {dies, f.OOM}} {
		// Each one is drawn, even if it no longer matters, so that the draws of later messages do not depend on it.
		if hit(possible.p) && drawn.verdict == answers {
			drawn.verdict = possible.verdict
		}
	}
	drawn.late = hit(f.Late)
	return drawn
}
