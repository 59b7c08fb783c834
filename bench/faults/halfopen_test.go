package faults

import (
	"testing"
	"time"
)

// TestHalfOpen has a server fall silent without closing anything, as one does whose machine has lost its power: nothing that
// is sent arrives, on connections that there are and on those that are dialed.
func TestHalfOpen(t *testing.T) {
	few := size(20)
	for _, profile := range []string{"echo", "one-shot"} {
		t.Run(profile, func(t *testing.T) {
			// Both times are short enough to wait for, and long enough for the other servers, with which nothing is wrong.
			r := newRig(t, profile, func(r *rig) { r.settings.PingTimeout, r.settings.DialTimeout = 6*time.Second, 6*time.Second })
			r.crowd.join(sessions)
			silence := r.victim().poison("timeout", `"timeout": 0`, upstream, downstream)
			onset := time.Now()            // until now, Toxiproxy has changed one connection after the other
			r.crowd.arrive(few, usualSize) // not known yet: some of them get a dead connection
			broken := r.backend(0).Leased
			r.awaitBroken(sessions+few, broken)
			r.awaitOutOfService()
			r.crowd.join(r.roomBeside(few))
			r.awaitReturn(silence.heal())
			r.crowd.join(broken)
			if r.backend(0).Leased == 0 {
				t.Error("no client was sent to the server that is back")
			}
			r.settle()
			r.checkEndings(onset, broken, r.pingDeadlines())
			r.checkUnharmed(1, 2)
		})
	}
}
