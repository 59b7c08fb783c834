package faults

import (
	"testing"
	"time"
)

// TestHalfOpen has a server fall silent without closing anything, as one does whose machine has lost its power: nothing that
// is sent arrives, on connections that there are and on those that are dialed.
func TestHalfOpen(t *testing.T) {
	for _, profile := range []string{"echo", "one-shot"} {
		t.Run(profile, func(t *testing.T) {
			r := newRig(t, profile, func(r *rig) { r.settings.DialTimeout = 2 * time.Second })
			r.crowd.join(sessions)
			onset := time.Now()
			silence := r.victim().poison("timeout", `"timeout": 0`, upstream, downstream)
			r.crowd.arrive(20, usualSize) // nobody can know yet: some of them get a dead connection
			broken := r.backend(0).Leased
			r.awaitBroken(sessions+20, broken)
			r.awaitOutOfService()
			r.crowd.join(20)
			r.awaitReturn(silence.heal())
			r.crowd.join(broken)
			if r.backend(0).Leased == 0 {
				t.Error("no client was sent to the server that is back")
			}
			r.settle()
			r.checkEndings(onset, broken)
			r.checkUnharmed(1, 2)
		})
	}
}
