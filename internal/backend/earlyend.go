package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/backend/health"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// A connection may be dialed for one client, with that client's own key or parameters. When the server accepts the upgrade and ends
// the connection right behind it, what it said and its close are an answer to that client: the client gets them, as it would
// directly, and no other connection is dialed for it. With a one-shot profile the session simply hears all of it (see
// [Conn.forSession]). Otherwise the connection's boundary could not tell what to make of it, and it is kept as an EarlyEnd.

// EarlyEnd is how a server ended a connection that had been dialed for one client, before the session of that client began.
type EarlyEnd struct {
	// Close is the payload of the server's close frame; nil if it ended the connection without one.
	Close []byte
	// Full tells that it said that it is full.
	Full bool
	// Reason says for logs how the connection ended.
	Reason string
}

// EarlyEnd returns how the server has ended the connection before the session that leased it began; nil if it has not. The
// session presents to its client what [Conn.TakeGreeting] returns, and then this end, and ends the lease with [Conn.End].
func (c *Conn) EarlyEnd() *EarlyEnd {
	if c.kept == nil {
		return nil
	}
	return c.kept.farewell
}

// private tells whether the connection was dialed with what one client said in its handshake.
func (c *Conn) private() bool { return isPrivate(c.slot.Variant()) }

// young tells whether the connection was established a moment ago.
func (c *Conn) young() bool { return -c.established.Until() < health.Probation }

// leaveToClient keeps the end of the connection for the client that it was dialed for, if there is one, and tells whether it
// did. closing is the payload of the server's close frame; nil if it has sent none.
func (c *Conn) leaveToClient(why retirement, closing []byte) bool {
	switch {
	case !c.private() || why.reason == pool.Shutdown:
		return false
	case c.mode == waiting && c.lease == 0 && c.slot.State() == pool.Leased:
	case c.mode == greeting:
	default:
		return false
	}
	c.keep().farewell = &EarlyEnd{Close: closing, Full: why.reason == pool.Full, Reason: why.text}
	if why.reason == pool.Broken { // the server is told, whatever its client is
		c.kept.broken = &why
	}
	c.stopAlarm()
	if c.mode == greeting {
		if c.fill(); c.slot.State() != pool.Leased { // the client has left meanwhile
			c.kept.farewell, c.kept.broken = nil, nil
			c.lost(why)
		}
	}
	return true
}

// TakeGreeting returns the frames, or the beginning of them, that the server sent before the session, to be presented to the
// client. They have passed the Scanner.
func (c *Conn) TakeGreeting() []byte {
	var frames []byte
	for op, payload := range c.boundary.Greeting() {
		frames = frame.AppendMessage(frames, op, true, payload, false)
	}
	if c.kept != nil {
		frames = append(frames, c.kept.greeting...)
		c.kept.greeting = nil
	}
	return frames
}
