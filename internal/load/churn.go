package load

import (
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// jitter is how much shorter or longer than asked for sessions are, as a share of their length.
const jitter = 0.1

// notEnded is what is wrong with a server that keeps a connection open after both have said that it is to be closed.
const notEnded = "not ended after the close frames"

// churn is the talk of a client of an echo server that ends its session in order after some time, and begins another.
// The number of sessions at a time stays what was asked for, so how many begin in a second depends on how long it takes to
// begin and end one.
//
// A session ends like this: nothing more becomes due, the last echoes are awaited, then close frames are exchanged. After a
// session that failed, the client waits for as long as a session before it tries again.
type churn struct {
	echo
	timer  loop.Timer // its purpose is what comes next
	state  sessionState
	halted bool // no further session
}

// sessionState is how far a session has come.
type sessionState uint8

const (
	away    sessionState = iota // no session, or one that is being begun
	talking                     // messages become due
	parting                     // the last echoes are awaited
	closing                     // the end of the connection is awaited
)

// What the timer of a churn is set for.
const (
	timerNext    loop.Purpose = iota // another session begins
	timerPart                        // the session begins to end
	timerBye                         // the last echoes are awaited no longer
	timerAbandon                     // the end of the connection is awaited no longer
)

// Loop implements [loop.Owner].
func (c *churn) Loop() *loop.Loop { return c.lane.loop }

// Expired implements [loop.Owner].
func (c *churn) Expired(t *loop.Timer) {
	switch t.Purpose() {
	case timerNext:
		c.next()
	case timerPart:
		c.part()
	case timerBye:
		c.bye()
	case timerAbandon:
		c.abandon()
	}
}

// length returns how long a session is to be.
func (s *stage) length() time.Duration {
	if s.noJitter {
		return s.sessionLength
	}
	return time.Duration(float64(s.sessionLength) * (1 - jitter + 2*jitter*rand.Float64()))
}

// begin implements talk. The first sessions end at any time, so that from the beginning on as many end in one second as in
// the next.
func (c *churn) begin() {
	length := c.lane.sessionLength
	if !c.lane.noJitter {
		length = time.Duration(float64(length) * rand.Float64())
	}
	if c.state == talking {
		c.timer.Set(c, length, timerPart)
	} else if !c.timer.Active() {
		c.timer.Set(c, length, timerNext)
	}
}

// next begins another session.
func (c *churn) next() { c.lane.redial(c.client) }

// opened implements talk.
func (c *churn) opened() {
	if c.halted {
		c.resolve(cut)
		c.bye()
		return
	}
	c.state = talking
	c.echo.opened()
	if c.lane.steady {
		c.timer.Set(c, c.lane.length(), timerPart)
	}
}

// due implements talk.
func (c *churn) due(at int64) {
	if c.state == talking {
		c.echo.due(at)
	}
}

// ready implements talk.
func (c *churn) ready() {
	if c.inTalk() {
		c.echo.ready()
	}
}

// inTalk reports whether messages are sent and echoes awaited.
func (c *churn) inTalk() bool { return c.state == talking || c.state == parting }

// take implements talk.
func (c *churn) take(p piece, now int64) {
	if !c.inTalk() {
		return // what comes now was given up, and has been counted
	}
	c.echo.take(p, now)
	if c.state == parting && p.last && c.echo.finished() {
		c.bye()
	}
}

// part begins to end the session.
func (c *churn) part() {
	c.state = parting
	if c.echo.finished() {
		c.bye()
		return
	}
	c.timer.Set(c, c.lane.patience, timerBye)
}

// bye closes the connection.
func (c *churn) bye() {
	c.echo.account()
	c.state = closing
	c.control(frame.Close, frame.AppendClosePayload(nil, frame.NormalClosure, ""))
	c.timer.Set(c, closeTimeout, timerAbandon)
	c.lane.settle(c.client)
}

// abandon gives up waiting for the server to end the connection.
func (c *churn) abandon() {
	c.fail(notEnded)
	c.drop()
	c.gone()
	c.ended()
}

// halt implements talk.
func (c *churn) halt() {
	c.halted = true
	if c.state == away || c.state == talking {
		c.timer.Stop()
	}
}

// finished implements talk.
func (c *churn) finished() bool { return !c.inTalk() || c.echo.finished() }

// inSession implements talk.
func (c *churn) inSession() bool { return c.state == talking }

// account implements talk.
func (c *churn) account() {
	if c.inTalk() {
		c.echo.account()
	}
}

// failed implements talk.
func (c *churn) failed() {
	if c.inTalk() {
		c.echo.failed()
	}
	c.state = closing
	c.timer.Set(c, closeTimeout, timerAbandon)
}

// ended implements talk.
func (c *churn) ended() {
	c.timer.Stop()
	c.resolve(complete) // unless it failed, or the run ends
	c.state = away
	switch {
	case c.halted || c.lane.closing:
	case c.broken:
		c.timer.Set(c, c.lane.length(), timerNext)
	default:
		c.next()
	}
}

// refused implements talk.
func (c *churn) refused(kind string) {
	c.resolve(refused)
	c.counts().error(kind)
	c.lane.settle(c.client)
	if !c.halted {
		c.timer.Set(c, c.lane.length(), timerNext)
	}
}
