package backend

import (
	"net/netip"

	"github.com/wsbouncer/wsbouncer/internal/backend/health"
)

// Stalled notes that the session of the connection's lease has had no result for too long; how says so. client is the address of the
// session's client, the zero value if it is not known. again tells that the session has stalled on another server before. It is called on
// the connection's loop, before the lease ends.
func (c *Conn) Stalled(client netip.Addr, again bool, how string) {
	b := c.config.backend
	b.options().Meter.Stall()
	b.worker.sessionStalled(health.Stall{Client: client, Began: c.sessionBegan, Again: again, How: how})
}

// Answered notes that the session of the connection's lease has a result. It is called on the connection's loop, once for each session or more.
func (c *Conn) Answered() { c.config.backend.worker.sessionAnswered(c.sessionBegan) }
