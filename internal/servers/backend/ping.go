package backend

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A connection proves that it is alive by answering pings. Idle or in a session, it is sent one from time to time, and the pong must come
// within a deadline. Any other data is a proof as well, since servers that compute in the thread that reads answer late. A connection is
// not judged while the proxy itself does not read, because the client is slow, or could not send the ping, because the server is slow:
// TCP's own time-outs apply then.

// pingPayload is the size of a ping's payload in bytes.
const pingPayload = 8

// scheduleCheck sets the time of the connection's next check.
func (c *Conn) scheduleCheck() {
	o := c.config.backend.options()
	next := time.Duration(0)
	if o.PingInterval > 0 {
		next = jittered(o.PingInterval)
	}
	at, expires := c.expiry()
	expires = expires && c.state == idle // a session is not cut for its connection's age
	if expires {
		if left := max(at.Until(), 0); next == 0 || left < next {
			next = left
		}
	}
	if next > 0 || expires {
		c.timer.SetRoughly(c.stream, next, timerCheck)
	} else {
		c.timer.Stop() // it may be that of the reset that has just succeeded
	}
}

// jittered returns a time between three quarters of d and d, so that what began together does not continue together.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/4+1) }

// check sends a ping, or retires an idle connection that is too old. It is called from time to time.
func (c *Conn) check() {
	o := c.config.backend.options()
	at, expires := c.expiry()
	if c.state == idle && expires && loop.Now() >= at && c.slot.Withdraw(pool.Aged) { // otherwise it was leased this moment
		c.close(aged)
		return
	}
	if o.PingInterval <= 0 {
		if c.state == serving { // it will be checked when the session has ended
			return
		}
		c.scheduleCheck()
		return
	}
	c.pinged = 0
	if c.state == serving {
		c.holder().SendPing()
	} else if c.stream.Pending() == 0 {
		c.sendControl(frame.Ping, c.Ping())
	}
	c.timer.SetRoughly(c.stream, o.PingTimeout, timerPong)
}

// Ping returns the payload of a ping that is being sent now.
func (c *Conn) Ping() []byte {
	c.pinged = loop.Now()
	c.received = c.count()
	return binary.BigEndian.AppendUint64(make([]byte, 0, pingPayload), c.token())
}

// pingSecret makes it impossible to guess a ping's payload.
var pingSecret = rand.Uint64()

// token is the payload of the ping that is not answered yet.
func (c *Conn) token() uint64 { return uint64(c.pinged) ^ pingSecret }

// count changes with whatever the server sends, except for multiples of 4 GiB.
func (c *Conn) count() uint32 { return uint32(c.Scanner.Frames + c.Scanner.Bytes) }

// Pong handles a pong from the server. It ignores one that answers no ping, which RFC 6455, section 5.5.3, allows.
func (c *Conn) Pong(payload []byte) {
	if c.pinged == 0 || len(payload) != pingPayload || binary.BigEndian.Uint64(payload) != c.token() {
		return
	}
	roundTrip := -c.pinged.Until()
	c.pinged, c.roundTrip = 0, uint32(min(roundTrip.Microseconds(), math.MaxUint32))
	c.config.backend.report.roundTrip(roundTrip)
	c.config.backend.options().Meter.Ping.Observe(roundTrip)
	if c.state == idle || c.state == serving {
		c.scheduleCheck()
	}
}

// pongDue ends the connection if it has not proved that it is alive.
func (c *Conn) pongDue() {
	timeout := c.config.backend.options().PingTimeout
	if c.pinged == 0 || c.stream.Paused() || c.stream.Held() > 0 || c.count() != c.received {
		c.scheduleCheck()
		return
	}
	if left := c.pinged.After(timeout).Until(); left > 0 { // it was sent later than it was due
		c.timer.Set(c.stream, left, timerPong)
		return
	}
	c.silent = true
	c.stream.Fail(fmt.Errorf("no answer to a ping within %v", timeout))
}

// aged reports whether the connection is too old to serve another session.
func (c *Conn) aged() bool { return c.retireAt != 0 && loop.Now() >= c.retireAt }

// expiry returns when an idle connection reaches its limit for idling or its maximum age, and whether it has either.
func (c *Conn) expiry() (at loop.Instant, expires bool) {
	if c.retireAt == 0 || c.stateTime != 0 && c.stateTime < c.retireAt {
		return c.stateTime, c.stateTime != 0
	}
	return c.retireAt, true
}
