package backend

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A reset makes a connection that has served a session fit for the next one: the server forgets the session, and what it still sends for
// it is dropped. What a reset sends, and what it awaits and for how long, is up to the profile (internal/protocol/profile/reset.go),
// whose boundary asks for it when the session ends; the messages are sent by [Conn.ApplyToServer]. This file has what happens to the connection meanwhile. The lease
// continues, and ends when the reset is done, and the connection is idle again, or when it fails, and the connection is closed.

// reset begins the reset after a session. The boundary's first messages have been sent.
func (c *Conn) reset() Outcome {
	c.to(resetting)
	c.stateTime = loop.Now()
	c.timer.Stop()
	c.slot.Reset(uint64(c.lease))
	return Resetting
}

// resetDone notes that the server has answered all. The connection is idle as soon as nothing more is received.
func (c *Conn) resetDone() {
	c.to(clean)
	c.config.backend.options().Meter.Reset.Observe(time.Duration(loop.Now() - c.stateTime))
}
