package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// This file ends a session on the server after its client has vanished, or has left in the middle: the server is told in its protocol's
// own words that the session is over, and the connection closes when the server has said its last word. The lease is over and nothing of
// this reaches a client, but the connection keeps its place at the server. A flood of clients that vanish must not hold all places, so
// at most half of those that there may be at present may be held this way; the connections of other sessions close at once.

// mayLeave reports whether another connection of the backend may wait for its server's last word, and counts it if so. Any goroutine may
// call it.
func (b *Backend) mayLeave() bool {
	most := int32(max(1, b.pool.Stats().Limit/2))
	for {
		n := b.leaving.Load()
		if n >= most {
			return false
		}
		if b.leaving.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends the lease, and waits for the last word of the server, which was told that the session is over. why is for the close frame
// that follows. The caller has counted the connection by [Backend.mayLeave].
func (c *Conn) leave(why cause, hurried bool) Outcome {
	o := c.config.backend.options()
	c.slot.Discard(uint64(c.lease), why.reason)
	c.to(leaving)
	c.addDeferred().leave = &why
	c.timer.Stop()
	if hurried {
		c.timer.Set(c.stream, o.CloseTimeout, timerLeave)
	}
	c.tellFate(Ended, c.boundary.Awaited())
	return Ended
}

// left ends the wait for the server's last word, and closes the connection. The server hears why the session ended, unless it broke the
// protocol meanwhile.
func (c *Conn) left(now cause, end meter.OrderlyEnd) {
	why := *c.deferred.leave
	c.config.backend.leaving.Add(-1)
	c.config.backend.options().Meter.EndedInOrder(end)
	if now.reason == pool.Broken {
		why = now
	}
	c.close(why)
	c.tellFate(Discarded, explain(why.reason, now.text))
}

// leftFor is left for an event that ends the connection.
func (c *Conn) leftFor(why cause) {
	end := meter.EndLost
	if why.reason == pool.Closed {
		end = meter.EndCompleted
	}
	c.left(why, end)
}

// leftBy is left for the boundary, or for the service's own limit.
func (c *Conn) leftBy(reason profile.Reason) {
	end := meter.EndTimedOut
	if reason == profile.Left {
		end = meter.EndCompleted
	}
	c.left(cause{text: reason.String()}, end)
}
