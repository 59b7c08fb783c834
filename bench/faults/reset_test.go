package faults

import (
	"strings"
	"testing"
	"time"
)

// TestReset resets all connections of a server, at the next byte on each, and all that are dialed from then on.
func TestReset(t *testing.T) {
	r := newRig(t, "echo", func(r *rig) { r.victim().willReset() })
	r.crowd.join(sessions)
	broken := r.backend(0).Leased
	resets := r.victim().poison("reset_peer", `"timeout": 0`, upstream)
	onset := time.Now() // until now, Toxiproxy has changed one connection after the other
	r.awaitBroken(sessions, broken)
	r.awaitOutOfService()
	r.crowd.join(r.roomBeside(20))
	r.awaitReturn(resets.heal())
	r.crowd.join(broken)
	if r.backend(0).Leased == 0 {
		t.Error("no client was sent to the server that is back")
	}
	r.settle()
	r.checkEndings(onset, broken, promptly)
	for _, c := range r.crowd.clients {
		if c.code == 1011 && !strings.Contains(c.reason, "reset") {
			t.Errorf("client %d was told %q: this was no reset", c.id, c.reason)
		}
	}
	r.checkUnharmed(1, 2)
}
