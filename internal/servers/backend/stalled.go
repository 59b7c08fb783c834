package backend

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Stalled notes that the client's session of the connection's lease has had no result for so long, which is too long; how says so. again
// tells that the session has stalled on another server before. It is called on the connection's loop, before the lease ends.
func (c *Conn) Stalled(client Client, again bool, quiet time.Duration, how string) {
	b := c.config.backend
	b.options().Meter.Stall()
	othersHeard := pool.Instant(b.signed.Load()) > b.worker.now()-pool.Instant(quiet-signedEvery) // later than its own last result
	b.worker.sessionStalled(health.Stall{Client: client, OthersHeard: othersHeard, Began: c.sessionBegan, Again: again, How: how})
}

// signedEvery is how exactly it is known when a session was last seen to get results.
const signedEvery = 100 * time.Millisecond

// Signed notes that the session of the connection's lease, whose server is watched, has got results lately. It is called on the connection's loop.
func (c *Conn) Signed() {
	b := c.config.backend
	if now := b.worker.now(); now-pool.Instant(b.signed.Load()) > pool.Instant(signedEvery) {
		b.signed.Store(int64(now))
	}
}

// Answered notes that the session of the connection's lease has a result. It is called on the connection's loop, once for each session or more.
func (c *Conn) Answered() { c.config.backend.worker.sessionAnswered(c.sessionBegan) }
