package relay

import "github.com/wsbouncer/wsbouncer/internal/wire/loop"

// activity is when each side of a session has sent data. Control frames do not count. It is owned by the session's loop, whose clock is read
// once for all that a turn reads, so that frames need none.
type activity struct {
	client, server loop.Instant // when data last came; when the session began if none has
	asked          loop.Instant // when the client first sent something that the server has sent nothing after; 0 for not
}

// begin notes that a server serves the session from now on.
func (a *activity) begin(now loop.Instant) {
	if a.client == 0 {
		a.client, a.server = now, now
	}
	if a.asked != 0 { // by a server that the session has left
		a.asked = now
	}
}

// fromClient and fromServer note that data has come.
func (a *activity) fromClient(now loop.Instant) {
	a.client = now
	if a.asked == 0 {
		a.asked = now
	}
}

func (a *activity) fromServer(now loop.Instant) { a.server, a.asked = now, 0 }
