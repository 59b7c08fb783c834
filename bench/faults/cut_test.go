package faults

import (
	"testing"
	"time"
)

// TestCut ends each connection of a server behind the next seven bytes that it sends. Where that is in the middle of a frame to
// the client, it cannot be told, but it never gets a byte that is not its own; where it is in a pong, the client is told. New
// connections do not get beyond the handshake.
//
// Toxiproxy ends the proxy's side first, so for a moment the server has connections that the proxy can no longer know of.
// That is why there are fewer sessions here: the pool stays so far below its cap that the server's own count does, too.
func TestCut(t *testing.T) {
	sessions := size(300)
	r := newRig(t, "echo")
	r.crowd.join(sessions)
	broken := r.backend(0).Leased
	cuts := r.victim().poison("limit_data", `"bytes": 7`, downstream)
	onset := time.Now() // until now, Toxiproxy has changed one connection after the other
	r.awaitBroken(sessions, broken)
	r.awaitOutOfService()
	r.crowd.join(r.roomBeside(20))
	r.awaitReturn(cuts.heal())
	r.crowd.join(broken)
	r.settle()
	r.checkEndings(onset, broken, promptly)
	r.checkUnharmed(1, 2)
}
