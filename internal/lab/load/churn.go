package load

import (
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// jitter is how much shorter or longer a session may be than the options say, as a share of its length.
const jitter = 0.1

// notEnded is the error of a server that keeps a connection open after both sides have sent a close frame.
const notEnded = "not ended after the close frames"

// churn is the talk of a client of an echo server that ends its session in order after some time, and begins another.
// The number of sessions at a time stays the same, so the number that begin in a second depends on how long it takes to
// begin and end one.
//
// A session ends in three steps: no more messages become due, the client waits for the last echoes, and both sides exchange
// close frames. After a session that failed, the client waits for the length of a session before it tries again.
type churn struct {
	echo
	timer  loop.Timer // its purpose says what comes next
	state  sessionState
	halted bool // begins no further session
}

// sessionState is how far a session has come.
type sessionState uint8

const (
	notConnected sessionState = iota // there is no session
	dialing                          // one is about to begin
	talking                          // messages become due
	draining                         // the client waits for the last echoes
	closing                          // the client waits for the end of the connection
)

// What the timer of a churn is set for.
const (
	timerNext    loop.Purpose = iota // begin another session
	timerDrain                       // begin to end the session
	timerClose                       // stop waiting for the last echoes
	timerAbandon                     // stop waiting for the end of the connection
)

// Loop implements [loop.Owner].
func (c *churn) Loop() *loop.Loop { return c.lane.loop }

// Expired implements [loop.Owner].
func (c *churn) Expired(t *loop.Timer) {
	switch t.Purpose() {
	case timerNext:
		c.next()
	case timerDrain:
		c.drain()
	case timerClose:
		c.close()
	case timerAbandon:
		c.abandon()
	}
}

// length returns a length for one session.
func (s *stage) length() time.Duration {
	if s.noJitter {
		return s.sessionLength
	}
	return time.Duration(float64(s.sessionLength) * (1 - jitter + 2*jitter*rand.Float64()))
}

// begin implements talk. The first sessions end at random times, so that about the same number end in each second from the
// beginning on.
func (c *churn) begin() {
	length := c.lane.sessionLength
	if !c.lane.noJitter {
		length = time.Duration(float64(length) * rand.Float64())
	}
	if c.state == talking {
		c.timer.Set(c, length, timerDrain)
	} else if c.state == notConnected && !c.timer.Active() {
		c.timer.Set(c, length, timerNext)
	}
}

// next begins another session.
func (c *churn) next() {
	c.state = dialing
	c.lane.redial(c.client)
}

// opened implements talk.
func (c *churn) opened() {
	if c.halted {
		c.setOutcome(cut)
		c.close()
		return
	}
	c.state = talking
	c.echo.opened()
	if c.lane.steady {
		c.timer.Set(c, c.lane.length(), timerDrain)
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

// inTalk reports whether the client sends messages or waits for echoes.
func (c *churn) inTalk() bool { return c.state == talking || c.state == draining }

// take implements talk.
func (c *churn) take(p piece, now int64) {
	if !c.inTalk() {
		return // the client gave up what comes now, and has counted it
	}
	c.echo.take(p, now)
	if c.state == draining && p.last && c.echo.finished() {
		c.close()
	}
}

// drain begins to end the session: it waits for the last echoes.
func (c *churn) drain() {
	c.state = draining
	if c.echo.finished() {
		c.close()
		return
	}
	c.timer.Set(c, c.lane.drainDelay, timerClose)
}

// close sends a close frame, and begins to wait for the end of the connection.
func (c *churn) close() {
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
	if c.state == notConnected || c.state == talking {
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
	c.setOutcome(complete) // unless it failed, or the run ends
	c.state = notConnected
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
	c.state = notConnected
	c.setOutcome(refused)
	c.counts().error(kind)
	c.lane.settle(c.client)
	if !c.halted {
		c.timer.Set(c, c.lane.length(), timerNext)
	}
}
